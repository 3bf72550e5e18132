"""Copies the output of one container into the `LogStore`, exactly once, over any number of crashes of the service.

The engine keeps a container's output in entries with a time each, and can show those since a time. Times alone do not
say where we stopped: the parts of a long line share one, and the two streams of a container are not sorted against
each other. So the cursor on disk holds a whole second that lies safely before all that may still come, how many
entries since that second were copied, and how long the log was then. Resuming means to cut the log back to that
length, ask for all since that second, and skip that many.
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
LAG_S = 10  # entries of the two streams are never further out of order than this
_RETRY_S = (0.2, 1.0, 5.0)
_PATIENCE = 8
"""Tries after which a log that the engine can't show counts as lost, about half a minute."""

Stamp = tuple[int, int]  # seconds since the epoch, nanoseconds


class Follower(threading.Thread):
    """Runs until the container has ended and all its output is in the log, which is then marked as complete; or until
    `stop`. An engine that does not answer is asked again and again."""

    def __init__(self, engine: Engine, store: LogStore, task_id: str, container_id: str) -> None:
        super().__init__(name=f"logs-{task_id}", daemon=True)
        self._engine = engine
        self._store = store
        self._task_id = task_id
        self._container_id = container_id
        self._stopping = threading.Event()
        self._stream: Stream | None = None
        self._read_to_its_end = False
        """The engine has shown the output until the container ended."""

    def stop(self) -> None:
        """Ends the thread soon, not waiting for it. The log stays resumable."""
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
                self._stopping.wait(0.2)  # another service is at it, and about to go
                continue
            try:
                while not self._stopping.is_set():
                    try:
                        if self._copy(copier):
                            copier.finish()
                            return
                        tries = 0
                    except (RuntimeFault, OSError, ValueError) as fault:  # or a full disk, which may pass
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
        """One request's worth. True when the container had ended before it, so that nothing can follow."""
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
                # Removed by somebody, or dead: what we have is all there will be.
                if not self._read_to_its_end:
                    copier.note(explain(error))
                return True
            finally:
                self._stream = None
        self._read_to_its_end = not self._stopping.is_set()
        return not goes_on


@dataclass(frozen=True)
class Position:
    """Where a copy stands: exactly what a resume needs."""

    size: int = 0
    since: int = 0
    skip: int = 0
    first: int = 0
    """Checksum of the first entry since that second. If it is another one now, the engine has dropped old entries."""
    end: int = 0
    """Checksum of the last copied entry. If skipping ends at another one, the engine had left some out: it does, when
    it writes more than it keeps while somebody follows."""
    last: Stamp = (0, 0)
    """The latest time of all copied entries: what to go by where counting is impossible."""
    counted: bool = True


@dataclass
class _Second:
    count: int
    index: int  # of its first entry, among all that were copied
    mark: int


@dataclass
class Window:
    """The copied entries by second, from a second on before which nothing new can come."""

    since: int = 0
    newest: int = 0
    copied: int = 0
    seconds: dict[int, _Second] = field(default_factory=dict)
    open_lines: dict[int, int] = field(default_factory=dict)
    """By stream, the second of a line of which only some parts came yet: all its parts bear the time of the first,
    hours later too."""

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
    """Appends entries to a log and keeps the cursor. After any failure call `rewind`, then begin again."""

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
        """The second from which on the engine should show entries; `copy` expects all of them since, and no other."""
        return self._position.since

    def rewind(self) -> None:
        """Goes back to the last saved position."""
        if self._position.size > self._writer.size:
            self._position = Position()  # a power cut took some of the log: the engine still has it
        self._writer.truncate(self._position.size)

    def copy(self, entries: Iterable[Frame]) -> None:
        """Copies what is new in `entries`, each with its time before it. Raises ValueError if they do not fit to what
        was copied before; from then on times decide what is new."""
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
                        raise ValueError("the engine does not show the entries that it showed before")
                    continue
                if stamp <= start.last:
                    continue
                left = 0  # all that follows the first later one is new
            self._writer.append(payload, stamp[0])
            self._last = max(self._last, stamp)
            if time.monotonic() - self._saved_at > SAVE_S:
                self._save(checksum(stamp, payload))
        # A stream that ended while we still skipped was cut off, and says nothing about where we are.
        if self._window.copied and not left:
            self._save(checksum(stamp, payload))

    def note(self, why: str) -> None:
        """Appends a line of our own, so that nobody takes what there is for all that was written."""
        line = f"[schedulearn] The rest of this log is missing: the engine lost it ({why}).\n"
        self._writer.append(line.encode())

    def finish(self) -> None:
        """All is copied: marks the log as complete."""
        self._writer.close()

    def release(self) -> None:
        """Lets go of the log; whoever takes it next resumes."""
        self._writer.abandon()

    def _save(self, end: int) -> None:
        self._keep(self._window.position(self._writer.size, end, self._last))

    def _keep(self, position: Position) -> None:
        procfs.write_json(self._cursor, asdict(position), durable=False)
        self._position, self._saved_at = position, time.monotonic()


def parse_entry(entry: bytes) -> tuple[Stamp, bytes]:
    """Splits `2026-01-31T12:00:00.123456789Z text`. Raises ValueError."""
    time_of_entry, _, payload = entry.partition(b" ")
    text = time_of_entry.decode("ascii")
    nanoseconds = text[20:29]
    # The engine writes its own time zone where it has one.
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
