"""Live streams: server-sent events of what happens, and logs as text, events or over a socket."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator, Callable
from typing import Any

from schedulearn.api.answers import json_bytes
from schedulearn.api.schemas import event_view
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database

_KEEPALIVE_S = 15.0
_LOG_POLL_S = 0.2
_CHUNK = 64 * 1024


class Pulse:
    """Wakes every stream after a commit. Commits happen in the writer's thread; streams live in the event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Event] = set()
        self.closing = False

    def bind(self) -> None:
        """Call once, in the event loop."""
        self._loop = asyncio.get_running_loop()

    def beat(self) -> None:
        """From any thread; cheap while nobody listens."""
        if self._loop is not None and self._waiters and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """Ends all streams, so that the server can stop."""
        self.closing = True
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            waiter.set()

    async def wait(self, waiter: asyncio.Event, timeout: float) -> bool:
        """False after `timeout` seconds without a beat."""
        try:
            await asyncio.wait_for(waiter.wait(), timeout)
        except TimeoutError:
            return False
        waiter.clear()
        return True

    def join(self) -> asyncio.Event:
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        return waiter

    def leave(self, waiter: asyncio.Event) -> None:
        self._waiters.discard(waiter)


def sse(data: Any, *, event: str | None = None, event_id: int | None = None) -> bytes:
    lines = [f"id: {event_id}"] if event_id is not None else []
    if event is not None:
        lines.append(f"event: {event}")
    lines.append("data: ")
    return "\n".join(lines).encode() + json_bytes(data) + b"\n\n"


async def event_stream(db: Database, pulse: Pulse, after: int, job_id: str | None = None) -> AsyncIterator[bytes]:
    """All events with an id above `after`, then new ones as they are committed. A comment line every 15 s keeps
    proxies from closing the connection and tells the reader that it is alive."""

    def read(last: int) -> list[Any]:
        with db.read() as connection:
            return repository.list_events(connection, after=last, job_id=job_id)

    waiter = pulse.join()
    try:
        yield b": connected\n\n"
        while not pulse.closing:
            events = await asyncio.to_thread(read, after)
            for event in events:
                after = event.id
                yield sse(event_view(event), event_id=event.id)
            if not events and not await pulse.wait(waiter, _KEEPALIVE_S):
                yield b": alive\n\n"
    finally:
        pulse.leave(waiter)


async def log_chunks(
    logs: LogStore, next_task: Callable[[str | None], str | None], pulse: Pulse, offset: int, follow: bool
) -> AsyncIterator[tuple[int, str]]:
    """(offset after it, text) pieces of a job's log: the containers of its attempts one after the other.

    Offsets count the bytes of the whole log. Bytes that are not UTF-8 come as U+FFFD; a character that is cut by a
    chunk's end waits for its rest, and is not counted in the offset until then. An empty text every 15 s of silence
    shows that the stream is alive. `next_task` gives the task after one (None: the first), None if there is none yet,
    and "" once there will be none.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    task: str | None = None
    base = 0  # offset at which the present task's log starts
    position = 0  # in that log
    silent = 0.0
    while not pulse.closing:
        if task:
            start, data = await asyncio.to_thread(logs.read, task, position, _CHUNK)
            if data:
                silent = 0.0
                position = start + len(data)
                if base + position > offset:
                    text = decoder.decode(data[max(0, offset - base - start) :])
                    if text:
                        yield base + position - len(decoder.getstate()[0]), text
                continue
            if start > position:
                position = start  # what was there is not kept
                continue
            if logs.ended(task) and logs.size(task) > position:
                continue  # written between the two looks
        if not task or logs.ended(task) or not follow or not logs.exists(task):
            following = await asyncio.to_thread(next_task, task)
            if following:
                base += position
                task, position = following, 0
                continue
            if following == "" or not follow:
                if rest := decoder.decode(b"", True):
                    yield base + position, rest
                return
        await asyncio.sleep(_LOG_POLL_S)
        silent += _LOG_POLL_S
        if silent >= _KEEPALIVE_S:
            silent = 0.0
            yield base + position - len(decoder.getstate()[0]), ""
