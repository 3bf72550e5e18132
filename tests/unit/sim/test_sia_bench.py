"""The bench against Sia says so where it did not run, and hands our policy what Sia's sees: no checkout is needed here,
a stand-in answers in place of Sia's policy."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bench.policies import sia, sia_artifact
from bench.policies.sia import Figures
from bench.policies.sia_artifact import Ended


class StandIn:
    """What the adapter needs of Sia's policy: goodput that grows with the root of the GPUs, fast ones four times."""

    def __init__(self, **settings: bool) -> None:
        self.settings = settings

    def _compute_goodputs_v2(self, info: Any, kind: str, nodes: Any, gpus: Any) -> Any:
        return (4.0 if kind == "fast" else 1.0) * np.sqrt(gpus)


@pytest.fixture
def policy() -> Any:
    return sia_artifact._adapter(SimpleNamespace(SiaPolicy=StandIn, get_restart_penalty=lambda name: 30))("speed")


NODES = {
    "slow": {at: SimpleNamespace(resources={"nvidia.com/gpu": 4}) for at in range(2)},
    "fast": {0: SimpleNamespace(resources={"nvidia.com/gpu": 8})},
}


def info(*, measured: bool = True, most: int = 8, underway: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        speedup_fn={"slow": (lambda: None) if measured else None, "fast": None},
        max_replicas={"slow": most, "fast": 1},
        creation_timestamp=100.0,
        age=3500.0,
        attained_service=3600.0,
        num_restarts=1,
        scaling_underway=underway,
    )


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_without_a_checkout_it_says_that_it_did_not_run(
    path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SIA_ARTIFACT", path)
    sia.main()
    assert "NOT RUN" in capsys.readouterr().out


def test_plans_are_said_as_the_artifact_says_them_and_fit_the_hosts(policy: Any) -> None:
    given: Mapping[str, Any] = policy.optimize({f"cifar10-{at}": info() for at in range(9)}, NODES, {})
    used = [(kind, host) for kind, hosts in given.values() for host in hosts]
    assert 9 <= len(used) <= 16
    assert all(used.count((kind, host)) <= (8 if kind == "fast" else 4) for kind, host in used)


def test_nobody_is_given_more_than_sia_would_try(policy: Any) -> None:
    given = policy.optimize({"new": info(measured=False, most=1), "known": info(most=2)}, NODES, {})
    assert len(given["new"][1]) == 1
    assert len(given["known"][1]) <= 2


def test_who_is_restarting_is_left_alone_but_for_its_host_which_costs_nothing_there(policy: Any) -> None:
    before = {"slow-one": ("slow", [1])}
    assert policy.optimize({"slow-one": info(underway=True)}, NODES, before)["slow-one"] == ("slow", [0])
    kind, hosts = policy.optimize({"slow-one": info()}, NODES, before)["slow-one"]
    assert (kind, set(hosts)) == ("fast", {0}), "after that it goes where it is faster"


def test_jobs_are_put_together_in_the_pieces_that_they_have() -> None:
    before = {"a": ("slow", [0, 0]), "b": ("slow", [1]), "c": ("fast", [0] * 5), "d": (None, ())}
    after = sia_artifact.packed(before, NODES)
    assert after == {"a": ("slow", [0, 0]), "b": ("slow", [0]), "c": ("fast", [0] * 5), "d": (None, ())}
    full = {"a": ("slow", [0, 0, 0]), "b": ("slow", [1, 1, 1]), "c": ("slow", [0, 1])}
    assert sia_artifact.packed(full, NODES) == full


def test_only_a_mean_completion_time_below_that_of_sia_keeps_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    def runs(mine: float) -> sia.Runs:
        figures = Figures(100.0, 200.0, 300.0, 1.0, 10.0)
        names = [f"{kind} {at}" for kind in sia.KINDS.values() for at in (2, 3)]
        ours = {name: figures._replace(mean_jct=mine + at) for at, name in enumerate(names)}
        return {"sia": dict.fromkeys(names, figures)} | dict.fromkeys(sia.METRICS, ours)

    assert sia._judge(runs(90.0))
    said = capsys.readouterr().out
    assert "ok   speed: mean_jct of Sia: 0.9" in said
    assert "ok   speed with families: mean_jct of Sia: 0.9" in said
    assert not sia._judge(runs(100.0))
    one_is_slower = runs(90.0) | {"speed": runs(100.0)["speed"]}
    assert not sia._judge(one_is_slower)


def test_figures_are_those_of_the_jobs() -> None:
    jobs = [Ended("a", 10.0, 110.0, 2, {"t4": 3600.0}), Ended("b", 60.0, 360.0, 0, {"t4": 1800.0, "a100": 1800.0})]
    found = sia.figures_of(jobs)
    assert (found.mean_jct, found.makespan, found.restarts, found.gpu_hours) == (200.0, 350.0, 1.0, 2.0)
