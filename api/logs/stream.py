"""Stream of a growing job log, as text, events or over sockets."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from schedulearn.api.stream import KEEPALIVE_S, Broadcaster
from schedulearn.scheduler.core.task import parse_task_id
from schedulearn.scheduler.runtimes.log_masking import hide, unsure
from schedulearn.scheduler.runtimes.log_store import LogStore, Written

_POLL_S = 0.2
_CHUNK = 64 * 1024


class Piece(NamedTuple):
    """Text of one container. An empty text only shows that the stream is alive."""

    position: int
    """Offset after the text, in the job's whole log."""
    text: str
    attempt: int = 0
    rank: int = 0
    times: Sequence[tuple[int, int]] = ()
    """(line, second): from this line of the text on, counted from 0, lines began in this second; 0: not known."""


def line_times(data: bytes, start: int, times: Sequence[Written]) -> list[tuple[int, int]]:
    """Convert `times` of `data` from bytes to lines. `data` begins at the offset `start`. Pure."""
    found: list[tuple[int, int]] = []
    line, counted = 0, 0
    for written in times:
        at = written.offset - start
        if at >= len(data):
            break
        line, counted = line + data.count(b"\n", counted, at), at
        # The line that it is in began before.
        first = line if at <= 0 or data[at - 1] == ord("\n") else line + 1
        if found and found[-1][0] == first:
            found.pop()
        found.append((first, written.second))
    return found


class _Reader:
    """Reader of a job's log: the logs of its tasks one after the other."""

    def __init__(self, logs: LogStore, offset: int, hidden: Sequence[bytes]) -> None:
        self.logs = logs
        self.hidden = hidden
        self.offset = offset
        self.task: str | None = None
        self._base = 0  # offset at which the present task's log starts
        self._position = 0  # in that log
        self._attempt = self._rank = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def position(self) -> int:
        """Offset after all text returned so far."""
        return self._base + self._position - len(self._decoder.getstate()[0])

    async def read(self) -> Piece | None:
        """Return the next text; None if there is none for now.

        The text may be empty though more follows at once."""
        if not self.task:
            return None
        start, data = await asyncio.to_thread(self.logs.read, self.task, self._position, _CHUNK)
        is_last = self.logs.ended(self.task) and start + len(data) >= self.logs.size(self.task)
        data = hide(data, self.hidden)
        if not is_last:  # a possible beginning of a hidden value waits until it is known
            data = data[: len(data) - unsure(data, self.hidden)]
        if data:
            self._position = start + len(data)
            skipped = max(0, self.offset - self._base - start)
            return await self._piece(data[skipped:], start + skipped)
        if start > self._position:
            self._position = start  # the log before it is not kept
            return Piece(self.position, "")
        if self.logs.ended(self.task) and self.logs.size(self.task) > self._position:
            return Piece(self.position, "")  # written between the two checks
        return None

    async def _piece(self, data: bytes, start: int) -> Piece:
        """Return `data` as a piece. `start`: its offset in the present task's log."""
        text = self._decoder.decode(data)
        if not (self.task and text):
            return Piece(self.position, "")
        times = await asyncio.to_thread(self.logs.times, self.task, start, len(data))
        return Piece(self.position, text, self._attempt, self._rank, line_times(data, start, times))

    def task_is_over(self) -> bool:
        """Whether another task's log may follow."""
        return not self.task or self.logs.ended(self.task) or not self.logs.exists(self.task)

    def go_on_with(self, task: str) -> None:
        self._base += self._position
        self.task, self._position = task, 0
        _, self._attempt, self._rank = parse_task_id(task) or ("", 0, 0)

    def rest(self) -> Piece:
        """Return the replacement of a character that was never completed."""
        return Piece(self.position, self._decoder.decode(b"", True), self._attempt, self._rank)


async def log_chunks(
    logs: LogStore,
    next_task: Callable[[str | None], str | None],
    broadcaster: Broadcaster,
    offset: int,
    follow: bool,
    hidden: Sequence[bytes] = (),
) -> AsyncIterator[Piece]:
    """Yield a job's log in pieces: the containers of its attempts one after the other.

    Offsets count the bytes of the whole log. Bytes that are not UTF-8 come as U+FFFD. A character that is cut by a
    chunk's end waits for its rest, and is not counted in the offset until then. An empty text every 15 s of silence
    shows that the stream is alive. `next_task` returns the task after one (None: the first), None if there is none yet,
    and "" once there will be none. `hidden`: values that are masked.
    """
    reader = _Reader(logs, offset, hidden)
    silent = 0.0
    while not broadcaster.closing:
        piece = await reader.read()
        if piece is not None:
            silent = 0.0
            if piece.text:
                yield piece
            continue
        if not follow or reader.task_is_over():
            following = await asyncio.to_thread(next_task, reader.task)
            if following:
                reader.go_on_with(following)
                continue
            if following == "" or not follow:
                if (rest := reader.rest()).text:
                    yield rest
                return
        await asyncio.sleep(_POLL_S)
        silent += _POLL_S
        if silent >= KEEPALIVE_S:
            silent = 0.0
            yield Piece(reader.position, "")
