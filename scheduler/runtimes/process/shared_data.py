"""Shared data of jobs, as folders of this machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tarfile
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

from schedulearn.scheduler.core.needs import folder_name, key_of
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.archives import extract
from schedulearn.scheduler.runtimes.contract import Stored

_INCOMING = ".incoming"
_WRITES = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


class DataOnDisk:
    """`SharedData` of local processes.

    An entry is a folder below `root`, or a link to a job's outputs below `outputs`."""

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

    def load(self, key: str, archives: Iterable[Iterable[bytes]], parts: Sequence[str] | None = None) -> None:
        folder, unfinished, came = self._root / folder_name(key), self._incoming(key), self._came(key)
        with self._alone(key):
            if folder.is_dir():
                return
            _remove(folder)  # a dangling link
            if parts is None or not self.begun(key):
                self._forget_begun(key)
            try:
                unfinished.mkdir(exist_ok=True)
                for number, archive in enumerate(archives):
                    extract(archive, unfinished)
                    if parts is not None:
                        came.mkdir(exist_ok=True)
                        (came / parts[number]).touch()
                _make_read_only(unfinished)
                unfinished.rename(folder)
                _remove(came)
            except (OSError, tarfile.TarError) as error:
                raise RuntimeFault(f"{key} can't be unpacked: {error}") from error
            finally:
                if parts is None:
                    self._forget_begun(key)

    def begun(self, key: str) -> Set[str]:
        if not self._incoming(key).is_dir() or not self._came(key).is_dir():
            return frozenset()
        return frozenset(os.listdir(self._came(key)))

    def unfinished(self) -> Sequence[str]:
        names = sorted(os.listdir(self._root)) if self._root.is_dir() else []
        found = (key_of(name[1:].removesuffix(_INCOMING)) for name in names if name.endswith(_INCOMING))
        return [key for key in found if key is not None]

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
                self._forget_begun(key)

    def sizes(self) -> tuple[Stored, ...]:
        whole = [Stored(key, _size(self._root / folder_name(key))) for key in self.all_keys()]
        return (*whole, *(Stored(key, _size(self._incoming(key))) for key in self.unfinished()))

    def _incoming(self, key: str) -> Path:
        return self._root / f".{folder_name(key)}{_INCOMING}"

    def _came(self, key: str) -> Path:
        """Return the folder with an empty file for each complete part."""
        return self._root / f".{folder_name(key)}.parts"

    def _forget_begun(self, key: str) -> None:
        _remove(self._came(key))  # first, because it describes the content of the other one
        _remove(self._incoming(key))

    @contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """Hold the entry's lock. Another thread or service may change it at the same time."""
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
        os.chmod(folder, 0o700)  # files in a read-only folder can't be deleted
    shutil.rmtree(path, ignore_errors=True)


def _size(folder: Path) -> int:
    if folder.is_symlink():
        return 0
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
