"""Coroutines wait for what threads settle."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from schedulearn.api.edge.thread_futures import ThreadFutures


def in_a_thread(work: Callable[[], object]) -> None:
    """Holds the event loop up meanwhile."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def settle(futures: list[Future[int]]) -> None:
    for number, future in enumerate(futures):
        future.set_result(number)


def test_those_that_are_settled_together_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> tuple[list[int], int]:
        loop, woken = asyncio.get_running_loop(), 0
        wake = loop.call_soon_threadsafe

        def counted(*args: object, **kwargs: object) -> object:
            nonlocal woken
            woken += 1
            return wake(*args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        awaited, futures = ThreadFutures(), [Future[int]() for _ in range(50)]
        found: list[int] = []
        for half in (futures[:25], futures[25:]):
            waiting = [asyncio.ensure_future(awaited.result(future)) for future in half]
            await asyncio.sleep(0)  # each has begun to wait
            in_a_thread(lambda half=half: settle(half))  # type: ignore[misc]
            found += await asyncio.gather(*waiting)
        return found, woken

    assert asyncio.run(run()) == ([*range(25), *range(25)], 2)


def test_errors_and_what_was_settled_before_are_told_too() -> None:
    async def run() -> None:
        awaited = ThreadFutures()
        failed, done = Future[int](), Future[int]()
        failed.set_exception(ValueError("no"))
        done.set_result(3)
        with pytest.raises(ValueError, match="no"):
            await awaited.result(failed)
        assert await awaited.result(done) == 3

    asyncio.run(run())


def test_who_no_longer_waits_holds_nobody_up() -> None:
    async def run() -> int:
        awaited, futures = ThreadFutures(), [Future[int](), Future[int]()]
        gone, waiting = (asyncio.ensure_future(awaited.result(future)) for future in futures)
        await asyncio.sleep(0)
        gone.cancel()
        in_a_thread(lambda: settle(futures))
        return await waiting

    assert asyncio.run(run()) == 1
