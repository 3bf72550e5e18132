"""Checkpoint and output folders of jobs on this machine."""

from __future__ import annotations

import heapq
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from schedulearn.scheduler.core.task import parse_task_id, task_id
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.archives import CHUNK, extract, pack, unpack
from schedulearn.scheduler.runtimes.contract import FileEntry, FileKind, Stored, UntrackedFile
from schedulearn.scheduler.runtimes.untracked import MAX_UNTRACKED_FILES, largest_first, may_matter

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # does not block on a pipe


class JobsOnDisk:
    """`JobFolders` of local processes, of one kind: one folder per job below `root`.

    `has_tasks` returns whether a task of a job exists. `remove_created` removes a job's tasks that never ran."""

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

    def load(self, job_id: str, archive: Iterable[bytes], *, keep: bool = False) -> None:
        self._remove_created(job_id)
        if not _is_job(job_id) or self._has_tasks(job_id):
            raise RuntimeFault(f"a task of {job_id} still uses its {self._root.name}")
        try:
            if keep:
                extract(archive, self.make(job_id))
            else:
                unpack(archive, self._root / job_id)
        except (OSError, tarfile.TarError) as error:
            raise RuntimeFault(f"the {self._root.name} of {job_id} can't be unpacked: {error}") from error

    @contextmanager
    def view(self, job_id: str) -> Iterator[DiskView | None]:
        folder = self._root / job_id
        yield DiskView(folder) if _is_job(job_id) and folder.is_dir() else None


class DiskView:
    """`FolderView` of a folder of this machine. It never follows links, whatever the job does meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def seen_at(self) -> str:
        return str(self._folder)

    def stat(self, path: str) -> FileEntry | None:
        *folders, name = ["", *path.split("/")] if path else [""]
        try:
            with self._open(folders) as fd:
                return _entry(name, fd) if name else _entry(".", fd)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(path, error) from error

    def entries(self, path: str, after: str, limit: int) -> list[FileEntry]:
        try:
            with self._open(path.split("/")) as fd, os.scandir(fd) as found:
                names = heapq.nsmallest(limit, (each.name for each in found if each.name > after))
                return [entry for name in names if (entry := _entry(name, fd)) is not None]
        except OSError as error:
            raise _unreadable(path, error) from error

    def read(self, path: str, size: int, offset: int, length: int) -> Iterator[bytes]:
        *folders, name = path.split("/")
        try:
            with self._open(folders) as parent, open(os.open(name, _FILE, dir_fd=parent), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode) or found.st_size != size:
                    raise RuntimeFault(f"{path} changed while it was read: try again")
                file.seek(offset)
                while length:
                    data = file.read(min(CHUNK, length))
                    if not data:
                        raise RuntimeFault(f"{path} ended too early: try again")
                    length -= len(data)
                    yield data
        except OSError as error:
            raise _unreadable(path, error) from error

    def pack(self, path: str) -> Iterator[bytes]:
        try:
            yield from pack(self._folder / path)
        except OSError as error:
            raise _unreadable(path, error) from error

    @contextmanager
    def _open(self, folders: Iterable[str]) -> Iterator[int]:
        """Open a folder and return its descriptor. Opens one level at a time, so that no link is followed."""
        fd = os.open(self._folder, _FOLDER)
        try:
            for name in filter(None, folders):
                inner = os.open(name, _FOLDER, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


def _entry(name: str, folder: int) -> FileEntry | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        target = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(found.st_mode) else ""
    except FileNotFoundError:
        return None
    kinds = {stat.S_IFREG: FileKind.FILE, stat.S_IFDIR: FileKind.FOLDER, stat.S_IFLNK: FileKind.LINK}
    kind = kinds.get(stat.S_IFMT(found.st_mode), FileKind.OTHER)
    return FileEntry(name, kind, found.st_size if kind is FileKind.FILE else 0, found.st_mtime, target)


def untracked_files(work: Path, started_at: float) -> list[UntrackedFile]:
    """Return the files a task wrote to its working directory, which is deleted with the task."""
    found: list[UntrackedFile] = []
    seen = 0
    for folder, folders, names in os.walk(work):
        folders[:] = [name for name in folders if may_matter(f"/work/{name}")]
        for name in names:
            seen += 1
            file = os.lstat(os.path.join(folder, name))
            if (
                stat.S_ISREG(file.st_mode)
                and file.st_size
                and file.st_mtime >= started_at
                and may_matter(f"/work/{name}")
            ):
                found.append(UntrackedFile(os.path.join(folder, name), file.st_size))
            if seen >= MAX_UNTRACKED_FILES:
                return largest_first(found)
    return largest_first(found)


def _unreadable(path: str, error: OSError) -> RuntimeFault:
    return RuntimeFault(f"{path or 'the folder'} can't be read: {error.strerror or error}")


def _is_job(name: str) -> bool:
    return parse_task_id(task_id(name, 1, 0)) is not None
