"""Goodput against the formulas of AdaptDL (`adaptdl/goodput.py`; Pollux, OSDI 2021, equations 5 to 12), written down
here once more from the paper, one number at a time. Run with -s, each test prints how far both agree."""

from __future__ import annotations

import random

import pytest

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.step_time import StepTimeModel

CASES = 300


def pollux_goodput(
    parameters: list[float], phi: float, init: int, nodes: int, replicas: int, atomic: int, accumulation: int
) -> float:
    """Throughput times efficiency. `parameters`: alpha and beta of a pass, within a host and over hosts, then gamma."""
    alpha_grad, beta_grad, alpha_local, beta_local, alpha_node, beta_node, gamma = parameters
    grad = alpha_grad + beta_grad * atomic
    if replicas == 1:
        sync = 0.0
    elif nodes == 1:
        sync = alpha_local + beta_local * (replicas - 2)
    else:
        sync = alpha_node + beta_node * (replicas - 2)
    step = accumulation * grad + (grad**gamma + sync**gamma) ** (1 / gamma)
    batch = replicas * atomic * (accumulation + 1)
    # AdaptDL: gain = (var + sqr) / (var / scale + sqr), efficiency = gain / scale, phi = init var / sqr
    scale = batch / init
    gain = (phi / init + 1) / (phi / init / scale + 1)
    return batch / step * gain / scale


def drawn(dice: random.Random) -> tuple[list[float], float, int, int, int]:
    """(parameters, phi, init, nodes, replicas)."""
    times = [10 ** dice.uniform(-4, 0) for _ in range(6)]
    nodes = dice.choice([1, 1, 2, 5])
    replicas = 1 if nodes == 1 and dice.random() < 0.3 else nodes * dice.randint(1 if nodes > 1 else 2, 8)
    return [*times, dice.uniform(1, 10)], 10 ** dice.uniform(0, 5), dice.randint(1, 256), nodes, replicas


def test_goodput_is_that_of_adaptdl_wherever_gpus_divide_the_batch() -> None:
    dice, worst = random.Random(0), 0.0
    for _ in range(CASES):
        parameters, phi, init, nodes, replicas = drawn(dice)
        atomic, accumulation = dice.randint(1, 64), dice.choice([0, 0, 1, 3])
        batch = replicas * atomic * (accumulation + 1)
        if batch < init:
            continue
        expected = pollux_goodput(parameters, phi, init, nodes, replicas, atomic, accumulation)
        job = Goodput({"gpu": StepTimeModel(*parameters)}, phi, BatchBounds(init, batch, max_local=atomic))
        worst = max(worst, abs(float(job.at(nodes, replicas, batch)) / expected - 1))
    print(f"goodput at a batch: largest relative difference to AdaptDL's formula {worst:.1e}")
    assert worst < 1e-9


def test_the_best_goodput_is_at_most_one_per_cent_below_that_of_all_batches() -> None:
    dice, worst = random.Random(1), 0.0
    for _ in range(CASES):
        parameters, phi, init, nodes, replicas = drawn(dice)
        most, largest = dice.randint(4, 64), init + dice.randint(0, 2000)
        even = [
            pollux_goodput(parameters, phi, init, nodes, replicas, atomic, accumulation)
            for accumulation in range(-(-largest // (replicas * most)) + 1)
            for atomic in range(1, most + 1)
            if init <= replicas * atomic * (accumulation + 1) <= largest
            and atomic * (accumulation + 1) > most * accumulation  # in no more passes than it needs
        ]
        job = Goodput({"gpu": StepTimeModel(*parameters)}, phi, BatchBounds(init, largest, max_local=most))
        if even:
            worst = max(worst, 1 - float(job(nodes, replicas)) / max(even))
    print(f"best goodput: at most {worst:.2%} below the best of all batches that divide")
    assert worst <= 0.01


@pytest.mark.parametrize(
    ("parameters", "phi", "workers", "bounds", "best"),
    [
        ([7.97, 0.15, 1.85, 3.55, 2.94, 6.42, 7.3], 16.36, 1, BatchBounds(10, 872, max_local=15, alone_passes=2), 10),
        ([0.28, 0.27, 3.04, 5.93, 0.29, 0.29, 8.33], 26.1, 3, BatchBounds(68, 807, max_local=42), 84),
        ([1.38, 1.93, 3.21, 3.36, 3.97, 2.14, 5.88], 189.3, 8, BatchBounds(86, 873, max_local=21), 104),
    ],
)
def test_batches_between_half_a_pass_and_one_are_looked_at(
    parameters: list[float], phi: float, workers: int, bounds: BatchBounds, best: int
) -> None:
    """AdaptDL's search finds `best`. Ours went to the largest batch that fits in one pass, and lost 2 to 21 %."""
    job = Goodput({"gpu": StepTimeModel(*parameters)}, phi, bounds)
    assert float(job(1, workers)) >= 0.99 * float(job.at(1, workers, best))
