"""The log of a job while it grows, as text, as events or over a socket."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator, Callable, Sequence

from schedulearn.api.stream import KEEPALIVE_S, Pulse
from schedulearn.scheduler.runtimes.log_masking import hide, unsure
from schedulearn.scheduler.runtimes.log_store import LogStore

_POLL_S = 0.2
_CHUNK = 64 * 1024


class _Reader:
    """How far a job's log was read: the logs of its tasks one after the other."""

    def __init__(self, logs: LogStore, offset: int, hidden: Sequence[bytes]) -> None:
        self.logs = logs
        self.hidden = hidden
        self.offset = offset
        self.task: str | None = None
        self._base = 0  # offset at which the present task's log starts
        self._position = 0  # in that log
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def position(self) -> int:
        """The offset after all text that was given out."""
        return self._base + self._position - len(self._decoder.getstate()[0])

    async def read(self) -> str | None:
        """The next text, which may be empty though more follows at once; None: there is none for now."""
        if not self.task:
            return None
        start, data = await asyncio.to_thread(self.logs.read, self.task, self._position, _CHUNK)
        is_last = self.logs.ended(self.task) and start + len(data) >= self.logs.size(self.task)
        data = hide(data, self.hidden)
        if not is_last:  # what may be the beginning of a value waits until it is known
            data = data[: len(data) - unsure(data, self.hidden)]
        if data:
            self._position = start + len(data)
            skipped = max(0, self.offset - self._base - start)
            return self._decoder.decode(data[skipped:])
        if start > self._position:
            self._position = start  # what was there is not kept
            return ""
        if self.logs.ended(self.task) and self.logs.size(self.task) > self._position:
            return ""  # written between the two looks
        return None

    def task_is_over(self) -> bool:
        """Whether another task's log may follow."""
        return not self.task or self.logs.ended(self.task) or not self.logs.exists(self.task)

    def go_on_with(self, task: str) -> None:
        self._base += self._position
        self.task, self._position = task, 0

    def rest(self) -> str:
        """What stands for a character that was never completed."""
        return self._decoder.decode(b"", True)


async def log_chunks(
    logs: LogStore,
    next_task: Callable[[str | None], str | None],
    pulse: Pulse,
    offset: int,
    follow: bool,
    hidden: Sequence[bytes] = (),
) -> AsyncIterator[tuple[int, str]]:
    """(offset after it, text) pieces of a job's log: the containers of its attempts one after the other.

    Offsets count the bytes of the whole log. Bytes that are not UTF-8 come as U+FFFD; a character that is cut by a
    chunk's end waits for its rest, and is not counted in the offset until then. An empty text every 15 s of silence
    shows that the stream is alive. `next_task` gives the task after one (None: the first), None if there is none yet,
    and "" once there will be none. `hidden`: what stands in no log.
    """
    reader = _Reader(logs, offset, hidden)
    silent = 0.0
    while not pulse.closing:
        text = await reader.read()
        if text is not None:
            silent = 0.0
            if text:
                yield reader.position, text
            continue
        if not follow or reader.task_is_over():
            following = await asyncio.to_thread(next_task, reader.task)
            if following:
                reader.go_on_with(following)
                continue
            if following == "" or not follow:
                if rest := reader.rest():
                    yield reader.position, rest
                return
        await asyncio.sleep(_POLL_S)
        silent += _POLL_S
        if silent >= KEEPALIVE_S:
            silent = 0.0
            yield reader.position, ""
