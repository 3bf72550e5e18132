"""Layers between a snapshot and a policy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import host, job, snapshot

from schedulearn.scheduler.core.host_scaling import ScalingRule
from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.pipeline import Ask, decide, layers
from schedulearn.scheduler.core.planning.fetching import WithImages
from schedulearn.scheduler.core.planning.quotas import Quota, Quotas
from schedulearn.scheduler.errors import PolicyFault
from schedulearn.scheduler.policies.registry import make_policy


def test_the_first_layer_is_asked_first_and_each_asks_the_next() -> None:
    seen: list[str] = []

    def layer(name: str):  # type: ignore[no-untyped-def]
        def call(ask: Ask, state: Snapshot) -> Plan:
            seen.append(name)
            plan = ask(state)
            seen.append(f"{name} again")
            return plan

        return call

    plan = decide(lambda state: Plan({"a": {"h1": 1}}), snapshot([], []), [layer("outer"), layer("inner")])
    assert plan.allocations == {"a": {"h1": 1}}
    assert seen == ["outer", "inner", "inner again", "outer again"]


def test_a_plan_that_breaks_a_rule_is_a_fault_of_the_policy() -> None:
    state = snapshot([job("a")], [host("h1", 1)])
    with pytest.raises(PolicyFault, match="a"):
        decide(lambda seen: Plan({"a": {"h1": 2}}), state, layers())


def test_all_layers_hold_together() -> None:
    """One job's image is elsewhere, one user has a quota, one job wants a type: each waits for its own reason."""
    hosts = [replace(host("h1", 2), gpu_type="A100"), replace(host("h2", 2), gpu_type="T4")]
    jobs = [
        job("fetched", user="ada"), job("typed", gpu_type="h100"), job("first", user="ben"), job("second", user="ben"),
    ]  # fmt: skip
    images = WithImages(lambda name, at: name != "fetched", lambda name: False)
    chosen = layers(quotas=Quotas({"ben": Quota(gpus=1)}), rule=ScalingRule(least=1), images=images)
    plan = decide(make_policy("fifo").allocate, snapshot(jobs, hosts), chosen)
    assert plan.allocations.keys() == {"first"}
    assert images.last.fetch.keys() == {"fetched"}
    assert "type h100" in plan.reasons["typed"]
    assert "ben may hold 1 at once" in plan.reasons["second"]
    assert plan.desired_hosts is not None
