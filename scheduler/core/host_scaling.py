"""How many hosts a cluster should have on, by its utility (as Pollux, and the thesis on its metrics, decide), and which
are switched off and on for that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from schedulearn.scheduler.core.model import HostView


@dataclass(frozen=True)
class HostScaling:
    """Keep the number of hosts while the utility (sum of speedups over GPUs) lies within the thresholds; else, among
    the numbers whose utility is at least `low`, take that nearest to the middle, ties to more hosts (Pollux, OSDI 2021,
    section 4.2.2; Aptanagi, 2021: 0.35 and 0.65, and 0.80 as the upper one for `cost`)."""

    low: float
    high: float

    def desired(self, hosts: Sequence[HostView], utility: Callable[[int], float]) -> int:
        """`utility(n)`: of the best solution on n hosts; falls with n. Asked for few n only."""
        now = sum(1 for host in hosts if host.open and host.gpus)
        most = max(now, sum(1 for host in hosts if host.open or host.gpus or host.parked_gpus))
        if not now:
            return min(1, most)
        used = utility(now)
        if self.low <= used <= self.high or (used > self.high and now == most):
            return now
        least, high = (now, most) if used > self.high else (1, max(1, now - 1))
        while least < high:  # the largest n that is used well enough
            middle = (least + high + 1) // 2
            if utility(middle) >= self.low:
                least = middle
            else:
                high = middle - 1
        target = (self.low + self.high) / 2
        while least > 1 and abs(utility(least - 1) - target) < abs(utility(least) - target):
            least -= 1
        return least


@dataclass(frozen=True)
class ScalingRule:
    """What an operator says of the number of hosts that are on, whatever the policy."""

    least: int = 1
    most: int | None = None
    """None: all that there are."""
    initial: int | None = None
    """So many are on from the start, until the first window has passed; None: all."""
    target: float | None = None
    """The share of the GPUs that should be used, as the Horizontal Pod Autoscaler has a target; None: hosts follow the
    policy's wish, or what the jobs need."""

    def __post_init__(self) -> None:
        if self.least < 1:
            raise ValueError(f"at least 1 host is on, not {self.least}")
        if self.most is not None and self.most < self.least:
            raise ValueError(f"at most {self.most} hosts may be on, and at least {self.least} should")
        if self.initial is not None and self.bounded(self.initial) != self.initial:
            raise ValueError(f"{self.initial} hosts at first are not within the bounds of those that may be on")
        if self.target is not None and not 0 < self.target <= 1:
            raise ValueError(f"the target must be above 0 and at most 1, not {self.target}")

    def bounded(self, hosts: int) -> int:
        return max(self.least, hosts if self.most is None else min(self.most, hosts))


@dataclass(frozen=True)
class Switching:
    """How hosts are switched off and on: what a forecast needs to know of it."""

    rule: ScalingRule
    window_s: float
    """So long fewer hosts must do before one is parked."""


@dataclass
class ScaleDownDelay:
    """The number of hosts to keep on: at once more, but fewer only once fewer were wanted for all of `window_s`. So the
    highest wish of the window counts. `initial`: what counts as wanted when it begins; None: nothing is known."""

    window_s: float
    initial: int | None = None
    _wanted: list[tuple[float, int]] = field(default_factory=list)

    def settle(self, now: float, desired: int | None) -> int | None:
        """None, and everything forgotten, while the policy does not say how many it wants."""
        if desired is None:
            self._wanted.clear()
            return None
        if self.initial is not None:
            self._wanted.append((now, self.initial))
            self.initial = None
        if not self._wanted or self._wanted[-1][1] != desired:
            self._wanted.append((now, desired))
        while len(self._wanted) > 1 and self._wanted[1][0] <= now - self.window_s:
            del self._wanted[0]  # the last one from before the window still held at its beginning
        return max(hosts for _, hosts in self._wanted)


Step = Literal["close", "reopen", "park", "wake"]


@dataclass(frozen=True)
class HostLoad:
    """A host with GPUs, as far as parking it goes."""

    id: str
    on: bool
    """It is in service, and answers or is about to."""
    parking: str = ""
    """`emptying`: closed, to be parked once it is empty; `parked`; or neither."""
    held: int = 0
    """GPUs that jobs hold."""
    bound: bool = False
    """It can't be parked: it is the service's own, or runs a rigid job."""


def steps(standings: Sequence[HostLoad], desired: int | None, idle_only: bool = False) -> list[tuple[str, Step]]:
    """What is to be done so that `desired` hosts are on, at least one; None: as many as there are. Hosts are woken in
    the order given and parked in the opposite one, empty ones first. `idle_only`: jobs need not leave for it, so only
    hosts without jobs are closed. Pure."""
    waiting = [host for host in standings if host.parking]
    on = [host for host in standings if host.on and not host.parking]
    wanted = len(standings) if desired is None else max(1, desired)
    if (short := wanted - len(on)) > 0:
        # What is not yet off comes back at once.
        back = sorted(waiting, key=lambda host: host.parking == "parked")[:short]
        return [(host.id, "wake" if host.parking == "parked" else "reopen") for host in back]
    empty: list[tuple[str, Step]] = [(h.id, "park") for h in waiting if h.parking == "emptying" and not h.held]
    spare = [host for host in reversed(on) if not host.bound and not (idle_only and host.held)]
    spare.sort(key=lambda host: host.held)
    return empty + [(host.id, "close") for host in spare[: len(on) - wanted]]
