"""Prices of GPU types under `speed`: slow GPUs don't idle."""

import numpy as np
import pytest

from schedulearn.metrics.model.goodput import Goodput
from schedulearn.scheduler.core.model import JobView, Snapshot
from schedulearn.scheduler.policies.goodput.prices import pool_prices
from schedulearn.scheduler.policies.goodput.tuning import Tuning
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.application import measured_applications, on_type
from schedulearn.scheduler.sim.arguments import parse_types


@pytest.mark.parametrize("name", ["bert", "cifar10", "deepspeech2", "imagenet"])
@pytest.mark.parametrize("count", [5, 6, 8])
def test_speed_uses_as_many_gpus_of_two_types_as_default(name: str, count: int) -> None:
    hosts, speeds = parse_types("t4=6x4,a100=2x4@3")
    application = measured_applications()[name]
    assert application.times is not None
    model = application.times.fitted()
    models = {kind: on_type(model, speed) for kind, speed in speeds.items()}
    goodput = Goodput(models, application.phi(application.last_part // 2), application.bounds, speeds)
    jobs = tuple(
        JobView(
            str(number), float(number), 1, 1, 16, True,
            goodput=goodput, profiled_gpus=16, attained_gpu_seconds=3000.0 * (number + 1),
        )
        for number in range(count)
    )  # fmt: skip
    used = {}
    for metric in ("speed", "default"):
        plan = make_policy("goodput", metric).allocate(Snapshot(1000.0, 0, tuple(hosts), jobs))
        used[metric] = sum(sum(allocation.values()) for allocation in plan.allocations.values())
    assert used["speed"] >= used["default"]


def test_prices_by_type_fit_what_is_taken_to_each_type() -> None:
    """Nine of ten jobs would take the one fast GPU at the price of a slow one. At these prices all find a place."""
    gains = np.linspace(2.0, 3.0, 10)
    base = np.column_stack([np.full(10, -1.0), -gains, np.zeros(10)])
    gpus = np.tile(np.array([1, 1, 0]), (10, 1))
    pool = np.tile(np.array([0, 1, 0]), (10, 1))
    prices = pool_prices(base, gpus, pool, np.array([9, 1]), np.array([0.5, 0.5]), Tuning())
    picked = (base + prices[pool] * gpus).argmin(axis=1)
    assert np.bincount(picked, minlength=3).tolist() == [9, 1, 0]
    assert picked[-1] == 1, "who gains most has the fast one"
