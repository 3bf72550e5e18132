"""Layers between a snapshot and a policy. Pure.

A policy decides on jobs and GPUs, and knows nothing of images, quotas or types. Each layer adds one of these: it may
change the snapshot, ask the next layer several times, and change the plan. The service, the simulator and previews use
the same layers in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from schedulearn.scheduler.core.feasible_hosts import plan_feasible
from schedulearn.scheduler.core.host_scaling import ScalingRule
from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.planning.cpu_only import CpuOnly, with_cpu_only
from schedulearn.scheduler.core.planning.guarantees import with_guarantees
from schedulearn.scheduler.core.planning.hosts_wanted import with_hosts_wanted
from schedulearn.scheduler.core.planning.quotas import NO_QUOTAS, Quotas, plan_within
from schedulearn.scheduler.core.policy import plan_faults
from schedulearn.scheduler.errors import PolicyFault

Ask = Callable[[Snapshot], Plan]
Layer = Callable[[Ask, Snapshot], Plan]


def decide(policy: Ask, snapshot: Snapshot, through: Sequence[Layer]) -> Plan:
    """Return the plan of a policy through layers, the outermost first. Raises what the policy raises."""
    ask = policy
    for layer in reversed(through):
        ask = partial(layer, ask)
    return ask(snapshot)


def layers(
    *,
    quotas: Quotas = NO_QUOTAS,
    rule: ScalingRule | None = None,
    cpu_only: CpuOnly | None = None,
    images: Layer | None = None,
) -> list[Layer]:
    """Return the layers of a decision, the outermost first. A layer that is None is left out."""
    return [
        # Jobs get GPUs only where their image is (fetching.ROUNDS questions at most).
        *([images] if images is not None else []),
        # The number of hosts that should be on.
        *([partial(with_hosts_wanted, rule=rule)] if rule is not None else []),
        # Users and groups get no more than they may have (a question more for each that would).
        partial(plan_within, quotas=quotas),
        # Groups get their guaranteed GPUs back from others (two questions more at most).
        *([partial(with_guarantees, guarantees=quotas.guarantees)] if quotas.guarantees else []),
        # Jobs without GPUs are placed beside the others; inner layers don't see them.
        *([partial(with_cpu_only, cpu_only=cpu_only)] if cpu_only is not None else []),
        # Only the policy's own plan is checked; the layers above keep the rules by themselves.
        checked,
        # Jobs run only on hosts where they may run (feasible_hosts.ROUNDS questions at most).
        plan_feasible,
    ]


def checked(ask: Ask, snapshot: Snapshot) -> Plan:
    """Return the plan. Raises PolicyFault for one that breaks a rule."""
    plan = ask(snapshot)
    if faults := plan_faults(snapshot, plan):
        raise PolicyFault("; ".join(faults[:3]))
    return plan
