"""Host scaling: the number of powered-up hosts, and which hosts to switch. Pure.

The number follows the cluster's utility, as in Pollux and in the thesis on its metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from schedulearn.scheduler.core.model import HostView


@dataclass(frozen=True)
class HostScaling:
    """Scaling by utility thresholds. Utility is the sum of speedups divided by the number of GPUs.

    The number of hosts stays while the utility lies within the thresholds. Otherwise, among the numbers with a utility
    of at least `low`, the one nearest to the middle is taken. Ties go to more hosts (Pollux, OSDI 2021, section 4.2.2).
    Aptanagi (2021) uses the thresholds 0.35 and 0.65, and 0.80 as the upper one for `cost`.
    """

    low: float
    high: float

    def desired(self, hosts: Sequence[HostView], utility: Callable[[int], float]) -> int:
        """Return the desired number of hosts.

        `utility(n)` is the utility of the best solution on n hosts. It falls with n and is called for few n only.
        """
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
    """Operator's limits on the number of powered-up hosts, for any policy."""

    least: int = 1
    most: int | None = None
    """Maximum; None allows all hosts."""
    initial: int | None = None
    """Number of hosts that are on from the start until the first window has passed; None means all."""
    target: float | None = None
    """Target share of GPUs in use, like the target of the Horizontal Pod Autoscaler. If None, hosts follow the policy's
    desired number, or the needs of the jobs."""

    def __post_init__(self) -> None:
        if self.least < 1:
            raise ValueError(f"the minimum must be at least 1 host, not {self.least}")
        if self.most is not None and self.most < self.least:
            raise ValueError(f"the maximum of {self.most} is below the minimum of {self.least} hosts")
        if self.initial is not None and self.bounded(self.initial) != self.initial:
            raise ValueError(f"the initial number of hosts, {self.initial}, is outside the minimum and maximum")
        if self.target is not None and not 0 < self.target <= 1:
            raise ValueError(f"the target must be above 0 and at most 1, not {self.target}")

    def bounded(self, hosts: int) -> int:
        return max(self.least, hosts if self.most is None else min(self.most, hosts))


@dataclass(frozen=True)
class Switching:
    """Host scaling settings that a forecast needs."""

    rule: ScalingRule
    window_s: float
    """Scale-down stabilization window, seconds. A host is powered down only if fewer were enough for all of it."""


@dataclass
class ScaleDownDelay:
    """Scale-down stabilization. The number rises at once, and falls only if fewer were desired for all of `window_s`.

    The maximum of the desired numbers in the window counts. `initial` is the number desired at the beginning; None if
    unknown.
    """

    window_s: float
    initial: int | None = None
    _wanted: list[tuple[float, int]] = field(default_factory=list)

    def settle(self, now: float, desired: int | None) -> int | None:
        """Return the number of hosts to keep on.

        While the policy has no desired number, the history is cleared and None returned.
        """
        if desired is None:
            self._wanted.clear()
            return None
        if self.initial is not None:
            self._wanted.append((now, self.initial))
            self.initial = None
        if not self._wanted or self._wanted[-1][1] != desired:
            self._wanted.append((now, desired))
        while len(self._wanted) > 1 and self._wanted[1][0] <= now - self.window_s:
            del self._wanted[0]  # the last number from before the window was still valid at its beginning
        return max(hosts for _, hosts in self._wanted)


Step = Literal["close", "reopen", "park", "wake"]


@dataclass(frozen=True)
class HostLoad:
    """Host with GPUs, as host scaling sees it."""

    id: str
    on: bool
    """Whether the host is in service and answers, or soon will."""
    parking: str = ""
    """`emptying` if the host is closed until it is empty and can be powered down; `parked` if it is powered down; else
    an empty string."""
    held: int = 0
    """Number of GPUs that jobs hold."""
    bound: bool = False
    """Whether the host can't be powered down: it is the service's own, or runs a rigid job."""


def steps(standings: Sequence[HostLoad], desired: int | None, idle_only: bool = False) -> list[tuple[str, Step]]:
    """Return the steps after which `desired` hosts are on, at least one. None means all hosts.

    Hosts are powered up in the order given. They are powered down in reverse order, empty ones first. With `idle_only`,
    jobs need not leave, so only hosts without jobs are closed. Pure.
    """
    waiting = [host for host in standings if host.parking]
    on = [host for host in standings if host.on and not host.parking]
    wanted = len(standings) if desired is None else max(1, desired)
    if (short := wanted - len(on)) > 0:
        # Hosts that are not off yet return first, at once.
        back = sorted(waiting, key=lambda host: host.parking == "parked")[:short]
        return [(host.id, "wake" if host.parking == "parked" else "reopen") for host in back]
    empty: list[tuple[str, Step]] = [(h.id, "park") for h in waiting if h.parking == "emptying" and not h.held]
    spare = [host for host in reversed(on) if not host.bound and not (idle_only and host.held)]
    spare.sort(key=lambda host: host.held)
    return empty + [(host.id, "close") for host in spare[: len(on) - wanted]]
