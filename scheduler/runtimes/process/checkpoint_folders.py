"""Checkpoints as folders of this machine, and such a folder as a tar archive, where no engine would pack it."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from schedulearn.scheduler.core.task import parse_task_id, task_id
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.contract import Stored

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 1 << 20
_BLOCK = tarfile.BLOCKSIZE


class CheckpointFolders:
    """The `Checkpoints` of local processes: one folder a job below `root`. `has_tasks` says whether a task of a job is
    still there, `remove_created` removes those that never ran."""

    def __init__(self, root: Path, has_tasks: Callable[[str], bool], remove_created: Callable[[str], None]) -> None:
        self._root = root
        self._has_tasks = has_tasks
        self._remove_created = remove_created

    def make(self, job_id: str) -> Path:
        folder = self._root / job_id
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def jobs(self) -> list[str]:
        return sorted(name for name in os.listdir(self._root) if _is_job(name)) if self._root.is_dir() else []

    def drop(self, job_id: str) -> None:
        if _is_job(job_id) and not self._has_tasks(job_id):
            shutil.rmtree(self._root / job_id, ignore_errors=True)

    def sizes(self) -> tuple[Stored, ...]:
        return tuple(
            Stored(job, sum(path.lstat().st_size for path in (self._root / job).rglob("*") if path.is_file()))
            for job in self.jobs()
        )

    def changed_at(self, job_id: str) -> float | None:
        try:
            return (self._root / job_id).stat().st_mtime if _is_job(job_id) else None
        except FileNotFoundError:
            return None

    def save(self, job_id: str) -> Iterator[bytes]:
        return pack(self._root / job_id) if _is_job(job_id) else iter(())

    def load(self, job_id: str, archive: Iterable[bytes]) -> None:
        self._remove_created(job_id)
        if not _is_job(job_id) or self._has_tasks(job_id):
            raise RuntimeFault(f"a task of {job_id} still has its checkpoints")
        try:
            unpack(archive, self._root / job_id)
        except (OSError, tarfile.TarError) as error:
            raise RuntimeFault(f"the checkpoints of {job_id} can't be unpacked: {error}") from error


def pack(folder: Path) -> Iterator[bytes]:
    """Nothing if it is not there. A file that shrinks meanwhile is filled up with zeros, so that the archive is whole;
    what is in it has checksums of its own."""
    if not folder.is_dir():
        return
    for path in [folder, *sorted(folder.rglob("*"))]:
        try:
            info = tarfile.TarInfo(os.path.join(".", path.relative_to(folder)))
            found = path.lstat()
            info.mode, info.mtime = found.st_mode & 0o7777, found.st_mtime
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                continue
            if path.is_dir():
                info.type = tarfile.DIRTYPE
                yield info.tobuf()
                continue
            with path.open("rb") as file:
                info.size = os.fstat(file.fileno()).st_size
                yield info.tobuf()
                left = info.size
                while left:
                    data = file.read(min(_CHUNK, left)) or bytes(min(_CHUNK, left))
                    left -= len(data)
                    yield data
                yield bytes(-info.size % _BLOCK)
        except FileNotFoundError:
            continue  # an old one that was just removed
    yield bytes(2 * _BLOCK)


def unpack(archive: Iterable[bytes], folder: Path) -> None:
    """Puts what is packed in place of the folder. Whatever goes wrong, no half of it stays."""
    incoming = folder.with_name(f".{folder.name}.incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    incoming.mkdir(parents=True)
    try:
        with tarfile.open(fileobj=io.BufferedReader(_Chunks(archive)), mode="r|") as tar:
            tar.extractall(incoming, filter="data")
        incoming.rename(folder)
    except BaseException:
        shutil.rmtree(incoming, ignore_errors=True)
        raise


class _Chunks(io.RawIOBase):
    """An iterable of bytes as a file to read."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        target = memoryview(buffer)
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        taken = min(len(target), len(self._rest))
        target[:taken] = self._rest[:taken]
        self._rest = self._rest[taken:]
        return taken


def _is_job(name: str) -> bool:
    return parse_task_id(task_id(name, 1, 0)) is not None
