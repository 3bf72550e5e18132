"""Time that passes only when it is told to, and threads that run only when they are told to."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

START = 1_800_000_000.0


@dataclass
class VirtualTime:
    """`clock` is the clock on the wall, which somebody may set; `elapsed` is the time that really passed."""

    elapsed: float = 0.0
    offset: float = 0.0
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    def clock(self) -> float:
        return START + self.elapsed + self.offset

    def monotonic(self) -> float:
        return self.elapsed

    def after(self, delay_s: float, call: Callable[[], None]) -> None:
        self._count += 1
        self._due.append((self.elapsed + delay_s, self._count, call))

    def advance(self, seconds: float) -> None:
        end = self.elapsed + seconds
        while self._due and min(self._due)[:2] <= (end, self._count):
            first = min(self._due, key=lambda due: due[:2])
            if first[0] > end:
                break
            self._due.remove(first)
            self.elapsed = max(self.elapsed, first[0])
            first[2]()
        self.elapsed = end


class VirtualPool(Executor):
    """Keeps what it is given in `pending`, from which the run takes it in any order."""

    def __init__(self, pending: list[Callable[[], Any]]) -> None:
        self._pending = pending

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._pending.append(lambda: fn(*args, **kwargs))
        return Future()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._pending.clear()
