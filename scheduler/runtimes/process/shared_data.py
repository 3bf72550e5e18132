"""Data that jobs share, as folders of this machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from schedulearn.scheduler.core.planning.shared_data import folder_name, key_of
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.archives import extract
from schedulearn.scheduler.runtimes.contract import Stored

_WRITES = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class DataOnDisk:
    """The `SharedData` of local processes: a folder each below `root`, or a link to a job's outputs below
    `outputs`."""

    def __init__(self, root: Path, outputs: Path) -> None:
        self._root = root
        self._outputs = outputs

    def all_keys(self) -> Sequence[str]:
        names = sorted(os.listdir(self._root)) if self._root.is_dir() else []
        return [key for name in names if (key := key_of(name)) is not None]

    def has(self, key: str) -> bool:
        return (self._root / folder_name(key)).is_dir()

    def seen_at(self, key: str, target: str) -> str:
        return str(self._root / folder_name(key))

    def load(self, key: str, archives: Iterable[Iterable[bytes]]) -> None:
        folder = self._root / folder_name(key)
        with self._alone(key):
            if folder.is_dir():
                return
            _remove(folder)  # a link to what is gone
            unfinished = self._root / f".{folder.name}.incoming"
            _remove(unfinished)
            try:
                unfinished.mkdir()
                for archive in archives:
                    extract(archive, unfinished)
                _make_read_only(unfinished)
                unfinished.rename(folder)
            except (OSError, tarfile.TarError) as error:
                raise RuntimeFault(f"{key} can't be unpacked: {error}") from error
            finally:
                _remove(unfinished)

    def link(self, key: str, job_id: str) -> None:
        folder = self._root / folder_name(key)
        with self._alone(key):
            if not folder.is_dir():
                _remove(folder)
                folder.symlink_to(self._outputs / job_id)

    def drop(self, key: str) -> None:
        folder = self._root / folder_name(key)
        if self._root.is_dir():
            with self._alone(key):
                _remove(folder)

    def sizes(self) -> tuple[Stored, ...]:
        return tuple(Stored(key, _size(self._root / folder_name(key))) for key in self.all_keys())

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Another thread or service may do the same at this moment."""
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / f".{folder_name(key)}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _make_read_only(folder: Path) -> None:
    for path, folders, names in os.walk(folder, topdown=False):
        for name in names + folders:
            inner = Path(path, name)
            if not inner.is_symlink():
                inner.chmod(inner.stat().st_mode & ~_WRITES)


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
        return
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o700)  # a read-only folder keeps its files
    shutil.rmtree(path, ignore_errors=True)


def _size(folder: Path) -> int:
    if folder.is_symlink():
        return 0
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
