"""Futures that other threads settle, for coroutines."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

T = TypeVar("T")


class ThreadFutures:
    """Those that are settled together, as submissions of one commit are, wake the event loop once;
    `asyncio.wrap_future` wakes it for each."""

    def __init__(self) -> None:
        self._settled: deque[asyncio.Future[None]] = deque()
        self._woken = False
        """The loop is about to look."""

    async def result(self, future: Future[T]) -> T:
        """What it comes to. Raises what it raises."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(partial(self._note, loop, waiter))
        await waiter
        return future.result()

    def _note(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[None], _: object) -> None:
        self._settled.append(waiter)
        if not self._woken:
            self._woken = True
            loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._woken = False  # first: what is noted from now on wakes the loop again
        while self._settled:
            waiter = self._settled.popleft()
            if not waiter.done():  # who waited may have been cancelled
                waiter.set_result(None)
