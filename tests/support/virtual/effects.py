"""Side effects of the service, numbered: commits, and calls that change something on a host. A run may kill the service
before or after each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Killed(BaseException):
    """The service dies here. No product code catches it, and nothing that it does on its way out is kept."""


class SideEffects:
    def __init__(self, note: Callable[[str], None] = lambda what: None) -> None:
        self.note = note
        self.count = 0
        self._kill_at: dict[int, bool] = {}
        self.dead = False

    def kill_at(self, number: int, *, after: bool) -> None:
        self._kill_at[number] = after

    def kill_soon(self, effects: int, *, after: bool) -> None:
        self.kill_at(self.count + effects, after=after)

    def spare(self) -> None:
        """No more kills."""
        self._kill_at.clear()

    def do(self, name: str, effect: Callable[[], T], on_kill: Callable[[], None] = lambda: None) -> T:
        """`on_kill`: what becomes of an effect that was asked for by a service that died at that moment."""
        if self.dead:
            raise Killed
        self.count += 1
        self.note(f"    {self.count}: {name}")
        when = self._kill_at.pop(self.count, None)
        if when is False:
            self.dead = True
            on_kill()
            raise Killed
        done = effect()
        if when is True:
            self.dead = True
            raise Killed
        return done
