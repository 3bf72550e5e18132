"""Capped logs of tasks on disk, one directory per task.

A log can be read while it grows and after its task is removed. It is a sequence of bytes, addressed by offsets from its
beginning. It is stored in segments, which are named by their start offset. When the log exceeds its cap, the oldest
segment is deleted; offsets don't change. Only the standard library is used, because the supervisor process of a local
task imports this module too.

A file beside each segment holds the times of writing (docs/adr/0005). Its records (offset, second) say when the bytes
from that offset on were written. There is at most one record per second, and none for bytes without a time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from schedulearn.scheduler.disk_room import is_low
from schedulearn.scheduler.runtimes.last_error import TAIL_BYTES

MIB = 1 << 20
DEFAULT_CAP = 64 * MIB
CHUNK = 1 << 18
_SEGMENTS = 4  # per cap, which keeps at least three quarters of it
_END = "end"
_LOCK = "writer.lock"
_RECORD = struct.Struct("<QI")
_BACK_S = 60
"""Lines of two streams may be out of order by this many seconds. A clock that went back further was set."""
_LAST_S = (1 << 32) - 1
UNKNOWN = 0
"""The second of bytes without a time."""
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class Written(NamedTuple):
    """Time of writing of the bytes from `offset` on: a second since the epoch, or UNKNOWN."""

    offset: int
    second: int


_REMOVED = b"schedulearn: the log up to here was removed, with its folder\n"


class LogStore:
    """All logs below `root`.

    Readers, and one writer per task, may be in different processes. A `LogStore` is only a view of the disk: cheap to
    make, and safe to share between threads. `cap_bytes` limits the kept bytes of one task; only writers use it.
    """

    def __init__(self, root: Path, cap_bytes: int = DEFAULT_CAP) -> None:
        self.root = root
        self.segment_bytes = max(1, cap_bytes // _SEGMENTS)

    def writer(self, task_id: str) -> LogWriter:
        """Open the task's log for appending; create or reopen it if necessary.

        Raises BlockingIOError while another writer has it, and ValueError for a task id that is not a plain name."""
        return LogWriter(self.path(task_id), self.segment_bytes)

    def read(self, task_id: str, offset: int = 0, limit: int = CHUNK) -> tuple[int, bytes]:
        """Return (start offset, at most `limit` bytes) from `offset` on.

        The start is later than `offset` if earlier bytes were dropped. Fewer bytes may come although there are more. No
        bytes come only at the end, and for an unknown task."""
        directory = self.path(task_id)
        while True:
            segments = _segments(directory)
            if not segments:
                return offset, b""
            start = max([s for s in segments if s <= offset], default=segments[0])
            position = max(offset, start)
            try:
                with open(directory / _segment_name(start), "rb") as file:
                    file.seek(position - start)
                    data = file.read(limit)
            except FileNotFoundError:
                continue  # deleted by its writer meanwhile: list the segments again
            later = [s for s in segments if s > start]
            if data or not later:
                return position, data
            offset = later[0]  # this segment has been read to its end

    def times(self, task_id: str, offset: int, length: int) -> list[Written]:
        """Return the known times of writing of these bytes.

        The bytes must come from one `read`, which keeps them within one segment."""
        directory = self.path(task_id)
        start = max([s for s in _segments(directory) if s <= offset], default=0)
        try:
            with open(directory / _times_name(start), "rb") as file:
                records = _Records(file.fileno())
                first = max(0, bisect_right(records, offset, key=_offset_of) - 1)
                last = bisect_left(records, offset + length, key=_offset_of)
                found = [records[index] for index in range(first, last)]
        except (FileNotFoundError, struct.error):
            return []  # dropped or truncated by its writer meanwhile
        return [Written(max(offset, at), second) for at, second in found]

    def tail(self, task_id: str, limit: int) -> bytes:
        """Return the last `limit` bytes, or fewer if the log is shorter."""
        offset, found = max(0, self.size(task_id) - limit), b""
        while True:
            start, data = self.read(task_id, offset, limit)
            if not data:
                return found[-limit:]
            offset, found = start + len(data), found + data

    def said(self, task_id: str) -> bytes | None:
        """Return the end of an ended task's log. None while the log is still being copied."""
        return self.tail(task_id, TAIL_BYTES) if self.ended(task_id) or not self.exists(task_id) else None

    def size(self, task_id: str) -> int:
        """Return the offset of the next byte to be written. It counts all bytes ever, not only those kept."""
        directory = self.path(task_id)
        while True:
            segments = _segments(directory)
            if not segments:
                return 0
            try:
                return segments[-1] + os.path.getsize(directory / _segment_name(segments[-1]))
            except FileNotFoundError:
                continue

    def exists(self, task_id: str) -> bool:
        return self.path(task_id).is_dir()

    def ended(self, task_id: str) -> bool:
        """Whether the log is complete, so that no byte will follow."""
        return (self.path(task_id) / _END).exists()

    def follow(
        self,
        task_id: str,
        offset: int = 0,
        poll_s: float = 0.1,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[bytes]:
        """Yield the bytes from `offset` or the earliest kept, as they come.

        Ends when the log has ended; an unknown or deleted log ends at once. `stopped` is called whenever there is
        nothing to read; if it returns True, the iteration ends too."""
        while True:
            # Checked before reading: bytes written before the end mark are read below.
            last = self.ended(task_id) or not self.exists(task_id) or stopped()
            while True:
                start, data = self.read(task_id, offset)
                if not data:
                    break
                yield data
                offset = start + len(data)
            if last:
                return
            time.sleep(poll_s)

    def task_ids(self) -> set[str]:
        """Ids of the tasks that have a log."""
        return {entry.name for entry in os.scandir(self.root) if entry.is_dir()} if self.root.is_dir() else set()

    def sizes(self) -> dict[str, int]:
        """Bytes on disk of each task's log."""
        found: dict[str, int] = {}
        for directory in os.scandir(self.root) if self.root.is_dir() else ():
            try:
                found[directory.name] = sum(file.stat().st_size for file in os.scandir(directory.path))
            except (NotADirectoryError, FileNotFoundError):
                continue  # deleted meanwhile, or not a log's directory
        return found

    def kept(self, task_id: str) -> int:
        """Bytes on disk of a task's log."""
        try:
            return sum(file.stat().st_size for file in os.scandir(self.path(task_id)))
        except (NotADirectoryError, FileNotFoundError):
            return 0

    def empty(self, task_id: str) -> None:
        """Delete all kept bytes of an ended log; offsets don't change.

        Does nothing for an unknown log, or while a writer has it."""
        if not self.exists(task_id):
            return
        try:
            writer = self.writer(task_id)
        except BlockingIOError:
            return
        writer.drop()
        writer.close()

    def delete(self, task_id: str) -> None:
        """Remove the log, if there is one."""
        shutil.rmtree(self.path(task_id), ignore_errors=True)

    def path(self, task_id: str) -> Path:
        """Return the directory of a task's log. Raises ValueError for a name that could lead out of `root`."""
        if not task_id or task_id.startswith(".") or len(task_id) > 200 or not _NAME.issuperset(task_id):
            raise ValueError(f"{task_id!r} is not a task id: use only letters, digits, '-', '_' and '.'")
        return self.root / task_id


class LogWriter:
    """The only writer of a task's log; not thread-safe.

    Every append is one or more unbuffered `write` calls. A crash loses nothing that was appended; a power failure may.
    """

    def __init__(self, directory: Path, segment_bytes: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._fd, self._start, self._length = -1, 0, 0
        self._times_fd, self._times, self._second = -1, 0, UNKNOWN
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (directory / _END).unlink(missing_ok=True)
            self._open(max(_segments(directory), default=0))
        except BaseException:
            self.abandon()
            raise

    @property
    def size(self) -> int:
        """Offset of the next byte to be written."""
        return self._start + self._length

    def append(self, data: bytes, second: float = UNKNOWN) -> None:
        """Append `data`, which was written in this second.

        Starts new segments and deletes the oldest as needed. Raises OSError if a write fails, or if the disk is almost
        full. Bytes written before the error stay."""
        if is_low(self._directory):
            raise OSError(errno.ENOSPC, "the disk is almost full: the rest of the log is not stored")
        view = memoryview(data)
        self._find_again()
        while view:
            if self._length >= self._segment_bytes:
                self._roll()
            self._note(min(max(int(second), UNKNOWN), _LAST_S))
            written = os.write(self._fd, view[: self._segment_bytes - self._length])
            self._length += written
            view = view[written:]

    def truncate(self, size: int) -> None:
        """Truncate the log to `size` bytes; the next append starts there.

        If `size` lies before the earliest byte kept, nothing is kept, and the log continues from `size`. Raises
        ValueError if `size` lies beyond the end."""
        if not 0 <= size <= self.size:
            raise ValueError(f"can't truncate a log of {self.size} bytes to {size}")
        if size == self.size:
            return
        segments = _segments(self._directory)
        first = max([s for s in segments if s <= size], default=size)
        # The newest first: an interruption leaves a prefix of the log.
        for start in reversed(segments):
            if start > first or segments[0] > size:
                self._remove(start)
        self._open(first)
        os.ftruncate(self._fd, size - first)
        self._length = size - self._start
        self._forget_times()

    def drop(self) -> None:
        """Delete all kept bytes; the offset of the next byte does not change."""
        segments = _segments(self._directory)
        self._open(self.size)
        for start in segments:
            if start != self._start:
                self._remove(start)

    def close(self) -> None:
        """Mark the log as complete and release it. A second call does nothing."""
        if self._fd >= 0:
            self._find_again()
            (self._directory / _END).touch()
        self.abandon()

    def abandon(self) -> None:
        """Release the log without marking it as complete; another writer may continue."""
        for fd in (self._fd, self._times_fd, self._lock):
            if fd >= 0:
                os.close(fd)
        self._fd = self._times_fd = self._lock = -1

    def _find_again(self) -> None:
        """Continue in a new folder if the current one was removed. Nobody could read the removed one."""
        if os.fstat(self._lock).st_nlink:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._open(self.size)
            self._length += os.write(self._fd, _REMOVED)
        except BaseException:
            os.close(lock)
            raise
        os.close(self._lock)
        self._lock = lock

    def _open(self, start: int) -> None:
        """Make the segment with this start the current one. The old one stays current if this fails."""
        fd = os.open(self._directory / _segment_name(start), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            times_fd = os.open(self._directory / _times_name(start), os.O_RDWR | os.O_CREAT, 0o600)
        except BaseException:
            os.close(fd)
            raise
        for old in (self._fd, self._times_fd):
            if old >= 0:
                os.close(old)
        self._fd, self._start, self._length = fd, start, os.fstat(fd).st_size
        self._times_fd = times_fd
        self._forget_times()

    def _note(self, second: int) -> None:
        """Record the second of the next bytes, unless the last record says the same."""
        if (self._second and self._second - _BACK_S <= second <= self._second) or second == self._second:
            return
        # At its own position, not at the end of the file: a full disk may have written part of a record.
        os.pwrite(self._times_fd, _RECORD.pack(self.size, second), self._times * _RECORD.size)
        self._times, self._second = self._times + 1, second

    def _forget_times(self) -> None:
        """Delete the times beyond the end of the log. Their bytes were truncated, or never written."""
        records = _Records(self._times_fd)
        self._times = bisect_left(records, self.size, key=_offset_of)
        self._second = records[self._times - 1].second if self._times else UNKNOWN
        os.ftruncate(self._times_fd, self._times * _RECORD.size)

    def _roll(self) -> None:
        self._open(self.size)
        for start in _segments(self._directory)[:-_SEGMENTS]:
            self._remove(start)

    def _remove(self, start: int) -> None:
        """Remove a segment, its times first.

        After an interruption the segment is still found, and both are removed later."""
        (self._directory / _times_name(start)).unlink(missing_ok=True)
        (self._directory / _segment_name(start)).unlink(missing_ok=True)


class _Records:
    """Time records of a segment, read from its file; a partial record is ignored."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._count = os.fstat(fd).st_size // _RECORD.size

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Written:
        return Written(*_RECORD.unpack(os.pread(self._fd, _RECORD.size, index * _RECORD.size)))


def _offset_of(record: Written) -> int:
    return record.offset


def _times_name(start: int) -> str:
    return f"{start:012d}.times"


def _segment_name(start: int) -> str:
    return f"{start:012d}.log"


def _segments(directory: Path) -> list[int]:
    """Return the start offsets of the segments, ascending."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return sorted(int(name[:-4]) for name in names if name.endswith(".log") and name[:-4].isdigit())
