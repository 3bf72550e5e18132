"""Server-sent events, and the broadcaster that wakes their streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import StreamingResponse

from schedulearn.api.answers.event import EventOut, EventPage
from schedulearn.api.answers.model import json_bytes
from schedulearn.scheduler.core.people import Actor
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database

KEEPALIVE_S = 15.0


class Broadcaster:
    """Broadcaster that wakes every stream after a commit.

    Commits happen in the writer's thread; streams run in the event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Event] = set()
        self.closing = False

    def bind(self) -> None:
        """Bind it to the running event loop. Call it once."""
        self._loop = asyncio.get_running_loop()

    def beat(self) -> None:
        """Wake all streams. Any thread may call it; it is cheap while there is no stream."""
        if self._loop is not None and self._waiters and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self.closing = True
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            waiter.set()

    async def wait(self, waiter: asyncio.Event, timeout: float) -> bool:
        """Wait for a beat. Return False after `timeout` seconds without one."""
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


def sse(data: BaseModel, *, event: str | None = None, event_id: int | None = None) -> bytes:
    lines = [f"id: {event_id}"] if event_id is not None else []
    if event is not None:
        lines.append(f"event: {event}")
    lines.append("data: ")
    return "\n".join(lines).encode() + json_bytes(data) + b"\n\n"


def wants_sse(request: Request) -> bool:
    return "text/event-stream" in request.headers.get("accept", "")


def last_event_id(request: Request, default: int) -> int:
    """Return the event ID after which a stream resumes.

    A browser sends it when it connects again; otherwise it is `default`."""
    given = request.headers.get("last-event-id", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) < 19 else default


def sse_response(stream: AsyncIterator[bytes]) -> StreamingResponse:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def event_stream(
    db: Database, broadcaster: Broadcaster, after: int, reader: Actor, job_id: str | None = None
) -> AsyncIterator[bytes]:
    """Yield all events with an ID above `after`, then new ones as they are committed, as `reader` may see them.

    A comment line after 15 s without events keeps proxies from closing the connection, and shows that it is alive."""

    def read(last: int) -> list[EventOut]:
        with db.read() as connection:
            rows = repository.list_events(connection, after=last, job_id=job_id)
        return EventPage.of(rows, reader).items

    waiter = broadcaster.join()
    try:
        yield b": connected\n\n"
        while not broadcaster.closing:
            events = await asyncio.to_thread(read, after)
            for event in events:
                after = event.id
                yield sse(event, event_id=event.id)
            if not events and not await broadcaster.wait(waiter, KEEPALIVE_S):
                yield b": alive\n\n"
    finally:
        broadcaster.leave(waiter)
