"""Switching of hosts off and on in a simulation, by the service's rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from schedulearn.scheduler.core.host_scaling import HostLoad, ScaleDownDelay, ScalingRule, steps
from schedulearn.scheduler.core.model import HostView, Plan
from schedulearn.scheduler.sim.conditions import Conditions


class HostSwitch:
    """Switch of the hosts, as the policy wants.

    Hosts given as powered down, or beyond the rule's `initial`, are off at first. Cordoned hosts stay as they are. `on`
    holds (begin, end) of every time for which a host was on. A machine that is several hosts to policies, one per GPU
    type, is switched as a whole.
    """

    def __init__(self, hosts: Sequence[HostView], conditions: Conditions, now: float) -> None:
        self.rule: ScalingRule = conditions.scaling_rule
        self._hosts = hosts
        self._boot_s = conditions.boot
        self._bound = set(conditions.always_on)
        self._delay = ScaleDownDelay(conditions.scale_window, self.rule.initial)
        self._may_close = now if self.rule.initial is not None else now + conditions.scale_window
        switched = dict.fromkeys(host.machine for host in hosts if host.open or host.parked_gpus)
        self._parking = {host.machine: "parked" for host in hosts if host.parked_gpus and not host.gpus}
        self._parking |= {host.machine: "emptying" for host in hosts if host.parked_gpus and host.gpus}
        if self.rule.initial is not None:
            running = [machine for machine in switched if machine not in self._parking]
            self._parking |= dict.fromkeys(running[self.rule.initial :], "parked")
        self._machines = list(switched)
        self._ready: dict[str, float] = {}
        self._since = {machine: now for machine in switched if self._parking.get(machine) != "parked"}
        self.on: list[tuple[float, float]] = []

    def views(self, now: float, held: Mapping[str, int]) -> tuple[HostView, ...]:
        """Return the hosts as a policy sees them; `held`: host id -> GPUs that jobs hold."""
        return tuple(self._view(host, now, held.get(host.id, 0)) for host in self._hosts)

    def _view(self, host: HostView, now: float, held: int) -> HostView:
        whole = host.parked_gpus or host.gpus
        if host.machine in self._parking or self._ready.get(host.machine, now) > now:
            return replace(host, gpus=held, open=False, parked_gpus=whole)
        return replace(host, gpus=whole, open=True, parked_gpus=0) if host.parked_gpus else host

    def turn(self, now: float, plan: Plan, held: Mapping[str, int], rigid: Set[str]) -> tuple[list[str], list[float]]:
        """Switch hosts; return (ids of hosts just cordoned, times one is up). `rigid`: hosts with rigid jobs."""
        wanted = self._delay.settle(now, plan.desired_hosts)
        machine_of = {host.id: host.machine for host in self._hosts}
        gpus = dict.fromkeys(self._machines, 0)
        for host, count in held.items():
            gpus[machine_of[host]] = gpus.get(machine_of[host], 0) + count
        bound = {machine_of[host] for host in rigid} | self._bound
        loads = [
            HostLoad(name, name not in self._parking, self._parking.get(name, ""), gpus[name], name in bound)
            for name in self._machines
        ]
        closed, ready = [], []
        for machine, step in steps(loads, wanted, plan.parks_idle_only):
            if step == "close" and now >= self._may_close:
                self._parking[machine] = "emptying"
                closed += [host.id for host in self._hosts if host.machine == machine]
            elif step == "park":
                self._parking[machine] = "parked"
                self.on.append((self._since.pop(machine), now))
            elif step in ("wake", "reopen") and self._parking.pop(machine) == "parked":
                self._since[machine] = now
                self._ready[machine] = now + self._boot_s
                ready.append(self._ready[machine])
        return closed, ready

    def finish(self, now: float) -> tuple[tuple[float, float], ...]:
        """Return all times for which hosts were on, up to now."""
        return (*self.on, *((since, now) for since in self._since.values()))
