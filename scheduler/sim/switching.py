"""Hosts that are switched off and on in a simulation: as the policy wants, by the same steps as the service's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from schedulearn.scheduler.core.host_scaling import HostLoad, ScaleDownDelay, steps
from schedulearn.scheduler.core.model import HostView


class HostSwitch:
    """All hosts are on at first. `on` holds (begin, end) of every time for which one was."""

    def __init__(self, hosts: Sequence[HostView], window_s: float, boot_s: float, now: float) -> None:
        self._hosts = {host.id: host for host in hosts}
        self._boot_s = boot_s
        self._delay = ScaleDownDelay(window_s)
        self._may_close = now + window_s
        self._parking: dict[str, str] = {}
        self._ready: dict[str, float] = {}
        self._since = dict.fromkeys(self._hosts, now)
        self.on: list[tuple[float, float]] = []

    def views(self, now: float, held: Mapping[str, int]) -> tuple[HostView, ...]:
        """The hosts as a policy may see them; `held`: host id -> GPUs that jobs hold."""
        return tuple(
            replace(host, gpus=held.get(host.id, 0), open=False, parked_gpus=host.gpus)
            if host.id in self._parking or self._ready.get(host.id, now) > now
            else host
            for host in self._hosts.values()
        )

    def turn(
        self, now: float, desired: int | None, held: Mapping[str, int], bound: Set[str]
    ) -> tuple[list[str], list[float]]:
        """(hosts that were just closed, times at which one will be up). `bound`: hosts with rigid jobs."""
        wanted = self._delay.settle(now, desired)
        loads = [
            HostLoad(host, host not in self._parking, self._parking.get(host, ""), held.get(host, 0), host in bound)
            for host in self._hosts
        ]
        closed, ready = [], []
        for host, step in steps(loads, wanted):
            if step == "close" and now >= self._may_close:
                self._parking[host] = "emptying"
                closed.append(host)
            elif step == "park":
                self._parking[host] = "parked"
                self.on.append((self._since.pop(host), now))
            elif step in ("wake", "reopen") and self._parking.pop(host) == "parked":
                self._since[host] = now
                self._ready[host] = now + self._boot_s
                ready.append(self._ready[host])
        return closed, ready

    def finish(self, now: float) -> tuple[tuple[float, float], ...]:
        """All times for which hosts were on, up to now."""
        return (*self.on, *((since, now) for since in self._since.values()))
