"""One way to do something again and again beside everything else: a thread with a stop, a wake-up and a log."""

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
    """Where the time and the threads of the parts that act on hosts come from. Tests bring their own, and run a whole
    service in virtual time, in one thread, so that each run can be repeated."""

    clock: Callable[[], float] = time.time
    """The time of day, which somebody may set."""
    monotonic: Callable[[], float] = time.monotonic
    pool: Callable[[int, str], Executor] = ThreadPoolExecutor
    """So many threads, and what their names begin with."""
    later: Callable[[float, Callable[[], None]], None] = call_later
    """Calls once, so many seconds from now."""


MACHINE = Timing()


class Worker(Protocol):
    """Something that runs beside all requests while the service is open."""

    def start(self) -> None: ...

    def close(self) -> None: ...


class Background:
    """A thread that calls `turn` until it is closed.

    `turn` returns how many seconds to rest before the next turn; None: until `wake` is called. A wake-up that comes
    while a turn runs brings another turn right after it.

    An error that a turn raises is logged with `trouble`, and the thread goes on after `trouble_s`, whoever calls
    `wake`: an error that comes with each turn must not fill the log. One that is raised while the thread closes is not
    logged: what it used is closed too.
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
        """`first_s`: rest before the first turn. `wake`: an event that others set to ask for a turn."""
        self._turn = turn
        self._first_s = first_s
        self._trouble = trouble or f"a turn of the thread {name} failed"
        self._trouble_s = trouble_s
        self._wake = wake or threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def start(self) -> None:
        """Does nothing after `stop`."""
        if not self.stopping:
            self._thread.start()

    def wake(self) -> None:
        """Asks for a turn now. Wake-ups that come together make one turn."""
        self._wake.set()

    def rest(self, seconds: float) -> bool:
        """For use inside a turn: rests, whoever calls `wake`. Returns at once, and True, when the thread closes."""
        return self._stopping.wait(seconds)

    def stop(self) -> None:
        """The turn that runs is the last one. Does not wait for it, so a turn may call it too."""
        self._stopping.set()
        self._wake.set()

    def close(self, timeout: float = CLOSE_S) -> None:
        """Stops, and waits for the turn that runs, but no longer than `timeout`."""
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
    """Does `work` once in a thread of its own. An error is logged."""

    def run() -> None:
        try:
            work()
        except Exception:
            log.exception("%s failed", name)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def delay_after(failures: int, delays_s: Sequence[float]) -> float:
    """How long to rest after so many failures in a row, 1 or more: the last delay from then on."""
    return delays_s[min(failures, len(delays_s)) - 1]
