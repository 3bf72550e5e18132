"""Copier of a container's output into the `LogStore`.

Each byte is copied exactly once, over any number of crashes of the service. The engine stores a container's output as
entries with a time each, and can return those since a time. Times alone don't mark the position of a copy. The parts of
a long line share one time, and the two streams of a container are not sorted against each other. The cursor on disk
therefore has three values. They are a whole second safely before all future entries, the number of entries copied since
that second, and the length of the log. To resume, the log is truncated to that length. All entries since that second
are requested, and that number of them is skipped.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import lru_cache

import docker.errors

from schedulearn.scheduler.errors import ObjectFault, RuntimeFault
from schedulearn.scheduler.runtimes import procfs
from schedulearn.scheduler.runtimes.docker.api import Engine, Frame, Stream, explain, status_of
from schedulearn.scheduler.runtimes.log_store import LogStore, LogWriter

CURSOR = "cursor.json"
SAVE_S = 1.0
LAG_S = 10  # maximum time by which entries of the two streams are out of order
_RETRY_S = (0.2, 1.0, 5.0)
_PATIENCE = 8
"""Tries before a log that the engine can't show counts as lost, about half a minute."""

Stamp = tuple[int, int]  # seconds since the epoch, nanoseconds


class Follower(threading.Thread):
    """Thread that copies a container's output.

    It runs until `stop`, or until the container has ended and all its output is in the log, which is then marked as
    complete. If the engine does not answer, it tries again without limit."""

    def __init__(self, engine: Engine, store: LogStore, task_id: str, container_id: str) -> None:
        super().__init__(name=f"logs-{task_id}", daemon=True)
        self._engine = engine
        self._store = store
        self._task_id = task_id
        self._container_id = container_id
        self._stopping = threading.Event()
        self._stream: Stream | None = None
        self._read_to_its_end = False
        """Whether the engine has shown the output until the container ended."""

    def stop(self) -> None:
        """Make the thread end soon, without waiting for it. The copy can be resumed."""
        self._stopping.set()
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def run(self) -> None:
        tries = 0
        while not self._stopping.is_set():
            try:
                copier = Copier(self._store.writer(self._task_id), str(self._store.path(self._task_id) / CURSOR))
            except BlockingIOError:
                self._stopping.wait(0.2)  # another service, which is about to end, has the log
                continue
            try:
                while not self._stopping.is_set():
                    try:
                        if self._copy(copier):
                            copier.finish()
                            return
                        tries = 0
                    except (RuntimeFault, OSError, ValueError) as fault:  # or a full disk, which is temporary
                        if isinstance(fault, ObjectFault) and tries >= _PATIENCE:
                            copier.rewind()
                            copier.note(fault.detail)
                            copier.finish()
                            return
                        self._stopping.wait(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
                        tries += 1
                        copier.rewind()
            except OSError:
                pass
            finally:
                copier.release()

    def _copy(self, copier: Copier) -> bool:
        """Copy the output of one request. True if the container had ended before it, so that nothing can follow."""
        with self._engine.errors("show a log"):
            try:
                inspected = self._engine.api.inspect_container(self._container_id)
                state = inspected["State"]
                if state["Status"] == "created" and not state.get("Error"):
                    self._stopping.wait(0.2)
                    return False
                goes_on = bool(state["Running"])
                parameters = {"stdout": 1, "stderr": 1, "timestamps": 1, "follow": int(goes_on), "since": copier.since}
                path = f"/containers/{self._container_id}/logs"
                with self._engine.stream("GET", path, params=parameters) as self._stream:
                    if not self._stopping.is_set():
                        copier.copy(self._stream.frames())
            except docker.errors.APIError as error:
                if status_of(error) not in (404, 409):
                    raise
                # The container was removed or is dead: no more output can be read.
                if not self._read_to_its_end:
                    copier.note(explain(error))
                return True
            finally:
                self._stream = None
        self._read_to_its_end = not self._stopping.is_set()
        return not goes_on


@dataclass(frozen=True)
class Position:
    """Position of a copy, from which it can be resumed."""

    size: int = 0
    since: int = 0
    skip: int = 0
    first: int = 0
    """Checksum of the first entry since that second. If it differs now, the engine has dropped old entries."""
    end: int = 0
    """Checksum of the last copied entry. If skipping ends at a different entry, the engine had left some out.

    This happens if it writes more than it keeps while a client follows the log."""
    last: Stamp = (0, 0)
    """Latest time of all copied entries, used if counting is impossible."""
    counted: bool = True


@dataclass
class _Second:
    count: int
    index: int  # of its first entry, among all copied entries
    mark: int


@dataclass
class Window:
    """Copied entries by second, from the earliest second in which new entries may still come."""

    since: int = 0
    newest: int = 0
    copied: int = 0
    seconds: dict[int, _Second] = field(default_factory=dict)
    open_lines: dict[int, int] = field(default_factory=dict)
    """Stream -> second of an incomplete line. All parts of a line have the time of the first, even hours later."""

    def add(self, stream: int, stamp: Stamp, payload: bytes) -> None:
        self.copied += 1
        second = self.seconds.get(stamp[0])
        if second is None:
            self.seconds[stamp[0]] = _Second(1, self.copied, checksum(stamp, payload))
            self.newest = max(self.newest, stamp[0])
            self._advance()
        else:
            second.count += 1
        if not payload.endswith(b"\n"):
            self.open_lines[stream] = stamp[0]
        elif self.open_lines:
            self.open_lines.pop(stream, None)

    def position(self, size: int, end: int, last: Stamp) -> Position:
        first = min(self.seconds.values(), key=lambda second: second.index, default=_Second(0, 0, 0))
        skip = sum(second.count for second in self.seconds.values())
        return Position(size, self.since, skip, first.mark, end, last)

    def _advance(self) -> None:
        oldest = min((self.newest - LAG_S, *self.open_lines.values()))
        if oldest > self.since:
            self.since = oldest
            self.seconds = {number: second for number, second in self.seconds.items() if number >= oldest}


class Copier:
    """Appends entries to a log and saves the cursor. After any failure, call `rewind` and start again."""

    def __init__(self, writer: LogWriter, cursor: str) -> None:
        self._writer = writer
        self._cursor = cursor
        self._position = _load(cursor)
        self._saved_at = 0.0
        self._window = Window()
        self._last: Stamp = (0, 0)
        self.rewind()

    @property
    def since(self) -> int:
        """Second from which the engine should show entries. `copy` expects exactly these entries."""
        return self._position.since

    def rewind(self) -> None:
        """Go back to the last saved position."""
        if self._position.size > self._writer.size:
            self._position = Position()  # a power failure lost some of the log: the engine still has it
        self._writer.truncate(self._position.size)

    def copy(self, entries: Iterable[Frame]) -> None:
        """Copy the new entries of `entries`, each of which starts with its time.

        Raises ValueError if they don't match the entries copied before; from then on, times decide which are new."""
        start = self._position
        self._window, self._last = Window(since=start.since), start.last
        left, counted = start.skip, start.counted
        for number, (stream, entry) in enumerate(entries):
            stamp, payload = parse_entry(entry)
            self._window.add(stream, stamp, payload)
            if left:
                if number == 0:
                    counted = counted and checksum(stamp, payload) == start.first
                if counted:
                    left -= 1
                    if left == 0 and checksum(stamp, payload) != start.end:
                        self._keep(replace(start, counted=False))
                        raise ValueError("the engine no longer has the entries that it had before")
                    continue
                if stamp <= start.last:
                    continue
                left = 0  # all entries from the first later one on are new
            self._writer.append(payload, stamp[0])
            self._last = max(self._last, stamp)
            if time.monotonic() - self._saved_at > SAVE_S:
                self._save(checksum(stamp, payload))
        # A stream that ended while entries were still skipped was cut off, and does not change the position.
        if self._window.copied and not left:
            self._save(checksum(stamp, payload))

    def note(self, why: str) -> None:
        """Append a line of our own, so that nobody takes the log for complete."""
        line = f"[schedulearn] The rest of this log is missing: the engine lost it ({why}).\n"
        self._writer.append(line.encode())

    def finish(self) -> None:
        """Mark the log as complete, since everything is copied."""
        self._writer.close()

    def release(self) -> None:
        """Release the log; the next `Copier` resumes."""
        self._writer.abandon()

    def _save(self, end: int) -> None:
        self._keep(self._window.position(self._writer.size, end, self._last))

    def _keep(self, position: Position) -> None:
        procfs.write_json(self._cursor, asdict(position), durable=False)
        self._position, self._saved_at = position, time.monotonic()


def parse_entry(entry: bytes) -> tuple[Stamp, bytes]:
    """Split `2026-01-31T12:00:00.123456789Z text` into time and text. Raises ValueError."""
    time_of_entry, _, payload = entry.partition(b" ")
    text = time_of_entry.decode("ascii")
    nanoseconds = text[20:29]
    # The engine writes its own time zone, if it has one.
    return (_epoch(text[:19] + (text[29:] or "Z")), int(nanoseconds)), payload


@lru_cache(maxsize=8)
def _epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def checksum(stamp: Stamp, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(repr(stamp).encode()))


def _load(path: str) -> Position:
    fields = procfs.read_json(path)
    if not fields:
        return Position()
    return Position(**{**fields, "last": tuple(fields["last"])})
