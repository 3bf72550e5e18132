"""Background threads that repeat a function, with stop, wake-up and error log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

log = logging.getLogger(__name__)

TROUBLE_S = 30.0
CLOSE_S = 5.0


def call_later(delay_s: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(delay_s, call)
    timer.daemon = True
    timer.start()


@dataclass(frozen=True)
class Timing:
    """Source of time and threads for the parts that act on hosts.

    Tests replace it to run a whole service in virtual time in one thread, so that each run is reproducible.
    """

    clock: Callable[[], float] = time.time
    """Time of day, which may be set at any time."""
    monotonic: Callable[[], float] = time.monotonic
    pool: Callable[[int, str], Executor] = ThreadPoolExecutor
    """Factory of thread pools. Arguments: number of threads, and prefix of their names."""
    later: Callable[[float, Callable[[], None]], None] = call_later
    """Timer that calls a function once after a delay in seconds."""


MACHINE = Timing()


class Worker(Protocol):
    """Background task that runs while the service is open."""

    def start(self) -> None: ...

    def close(self) -> None: ...


class Background:
    """Thread that calls `turn` until it is closed.

    `turn` returns the seconds to wait before the next call, or None to wait until `wake` is called. A wake-up during a
    call causes another call right after it.

    An error raised by `turn` is logged with the message `trouble`. The thread then continues after `trouble_s`, even if
    `wake` is called. This keeps repeated errors from filling the log. An error while the thread closes is not logged,
    since the objects that `turn` uses are closed too.
    """

    def __init__(
        self,
        name: str,
        turn: Callable[[], float | None],
        *,
        first_s: float = 0.0,
        trouble: str = "",
        trouble_s: float = TROUBLE_S,
        wake: threading.Event | None = None,
    ) -> None:
        """`first_s` is the delay of the first call. `wake` is an event that others set to request a call."""
        self._turn = turn
        self._first_s = first_s
        self._trouble = trouble or f"a cycle of the thread {name} failed"
        self._trouble_s = trouble_s
        self._wake = wake or threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        """Start the thread. Does nothing after `stop`."""
        if not self.stopping:
            self._thread.start()

    def wake(self) -> None:
        """Request a call now. Several wake-ups at once cause one call."""
        self._wake.set()

    def rest(self, seconds: float) -> bool:
        """Wait inside a call of `turn`, even if `wake` is called. Return True at once when the thread closes."""
        return self._stopping.wait(seconds)

    def stop(self) -> None:
        """Make the current call of `turn` the last one. Does not wait for it, so `turn` itself may call this."""
        self._stopping.set()
        self._wake.set()

    def close(self, timeout: float = CLOSE_S) -> None:
        """Stop, and wait for the current call of `turn`, at most `timeout` seconds."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        if self._first_s:
            self._wake.wait(self._first_s)
        while not self.stopping:
            self._wake.clear()
            try:
                rest_s = self._turn()
                if not self.stopping:  # a stop just before `clear` leaves no wake-up
                    self._wake.wait(rest_s)
            except Exception:
                if not self.stopping:
                    log.exception(self._trouble)
                self._stopping.wait(self._trouble_s)


def start_once(name: str, work: Callable[[], object]) -> threading.Thread:
    """Run `work` once in a separate thread. An error is logged."""

    def run() -> None:
        try:
            work()
        except Exception:
            log.exception("%s failed", name)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def delay_after(failures: int, delays_s: Sequence[float]) -> float:
    """Return the delay after a number of consecutive failures, 1 or more. The last delay repeats."""
    return delays_s[min(failures, len(delays_s)) - 1]
