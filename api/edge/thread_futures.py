"""Futures that other threads complete, for coroutines."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

T = TypeVar("T")


class ThreadFutures:
    """Adapter that lets coroutines await futures of other threads.

    Futures that are completed together, like submissions of one commit, wake the event loop once. `asyncio.wrap_future`
    wakes it for each."""

    def __init__(self) -> None:
        self._settled: deque[asyncio.Future[None]] = deque()
        self._woken = False
        """Whether the event loop is already scheduled to handle them."""

    async def result(self, future: Future[T]) -> T:
        """Return the future's result, or raise its exception."""
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
        self._woken = False  # first: futures noted from now on wake the loop again
        while self._settled:
            waiter = self._settled.popleft()
            if not waiter.done():  # the waiting coroutine may have been cancelled
                waiter.set_result(None)
