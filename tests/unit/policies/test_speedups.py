"""How fast jobs are wherever they might be: looked up where it was asked for all jobs at once, else asked for."""

from typing import Any

import numpy as np
import pytest
from builders import host, job, snapshot

from schedulearn.metrics.model import goodput as goodput_model
from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.residuals import Residuals, factors
from schedulearn.metrics.model.step_time import StepTimeModel
from schedulearn.scheduler.policies.goodput.options import build_options
from schedulearn.scheduler.policies.goodput.policy import GoodputPolicy
from schedulearn.scheduler.policies.registry import make_policy

SLOW = StepTimeModel(0.02, 0.002, 0.01, 0.001, 0.05, 0.002, 1.5)
FAST = StepTimeModel(0.02, 0.0005, 0.01, 0.001, 0.05, 0.002, 1.5)
SEEN = Residuals(np.array([1.0, 0.9]), np.array([1.0, 1.0, 0.8]))
HOSTS = tuple(host(f"{kind}{i}", gpu_type=kind) for kind in ("a100", "t4") for i in range(2))  # of four GPUs


def measured() -> Goodput:
    return Goodput({"t4": SLOW, "a100": FAST}, 500.0, BatchBounds(128, 4096), residuals={"t4": SEEN})


@pytest.mark.parametrize(
    ("hosts", "gpus", "pool"),
    [(1, 1, 0), (1, 3, 1), (2, 8, 1), pytest.param(2, 3, 1, id="spread over more than it needs"), (2, 2, 0)],
)
def test_a_job_is_as_fast_as_its_goodput_says_wherever_it_is(hosts: int, gpus: int, pool: int) -> None:
    jobs = (job("a", elastic=True, max_gpus=16, goodput=measured()), job("b", elastic=True, max_gpus=16))
    speedups = build_options(jobs, HOSTS, GoodputPolicy().objective).speedups
    function, kind = measured(), ("a100", "t4")[pool]
    one = function([1], [1], "t4")[0]  # of the slowest type
    assert speedups.at(0, hosts, gpus, pool) == pytest.approx(function([hosts], [gpus], kind)[0] / one)
    assert speedups.at(1, hosts, gpus, pool) == gpus  # not measured


def test_deviations_of_many_jobs_are_those_of_each() -> None:
    others = [Residuals(np.linspace(1.0, 1.2, n), np.linspace(0.9, 1.1, n + 1)) for n in (2, 5, 30)]
    nodes, gpus = np.array([1, 1, 1, 2, 2, 8]), np.array([0, 1, 4, 2, 7, 64])
    assert factors(others, nodes, gpus) == pytest.approx(np.array([each.factor(nodes, gpus) for each in others]))
    assert SEEN.factor(nodes, gpus) == pytest.approx([1.0, 1.0, 0.9, 1.0, 0.8, 0.8])


def test_a_decision_asks_once_how_fast_its_jobs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else it weighs, spare GPUs and who may stay, uses that: with thousands of jobs this is what takes
    longest."""
    asked = []
    search = goodput_model.search

    def counted(*args: Any, **kwargs: Any) -> Any:
        asked.append(len(args[1]))
        return search(*args, **kwargs)

    monkeypatch.setattr(goodput_model, "search", counted)
    held = [{"a1000": 1}, {"a1000": 2}, {"t40": 3}, {}, {}]
    jobs = [
        job(f"j{at}", elastic=True, max_gpus=4, goodput=measured(), allocation=each, run_seconds=1e4)
        for at, each in enumerate(held)
    ]
    plan = make_policy("goodput", "speed").allocate(snapshot(jobs, list(HOSTS)))
    assert len(plan.allocations) == 5
    assert len(asked) == 2  # once for each type of GPU
