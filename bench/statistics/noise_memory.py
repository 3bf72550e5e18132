"""How far the noise scale lags and scatters, by how many steps its average remembers.

|G|^2 falls tenfold over 10,000 steps of 64 samples, by four workers, while the variance of a gradient stays. Gradients
are drawn around the true one, evenly in some number of directions, and one step of 30 is measured. At the end the noise
scale is TRUE. An average that forgets by exp(-t / memory) has TRUE (1 - memory ln 10 / 10,000) of expectations.
`make figures` writes the table.
"""

from __future__ import annotations

import math
import statistics
from unittest import mock

import numpy as np

from schedulearn.metrics.model import noise_scale
from schedulearn.metrics.model.noise_scale import NoiseScale

BATCH, STEPS, EVERY, WORKERS, VAR = 64, 10_000, 30, 4, 10.0
TRUE = BATCH * VAR
MEMORIES = (500, 1000, 2000)
DIRECTIONS = (50, 500)
SEEDS = 20


def table() -> list[str]:
    head = ["memory, steps", "expected", *(f"median and spread, {each} directions" for each in DIRECTIONS)]
    lines = [" | ".join(head), " | ".join(["---", *["---:"] * (len(head) - 1)])]
    for memory in MEMORIES:
        found = [at_the_end(memory, directions) for directions in DIRECTIONS]
        cells = [f"{statistics.median(each):.0f} ± {statistics.stdev(each):.0f}" for each in found]
        lines.append(" | ".join([f"{memory:,}", f"{expected(memory):.0f}", *cells]))
    return [f"| {line} |" for line in lines]


def expected(memory: float) -> float:
    return TRUE * (1 - memory * math.log(10) / STEPS)


def at_the_end(memory: int, directions: int) -> list[float]:
    """The noise scale that each of SEEDS trainings would report."""
    with mock.patch.multiple(noise_scale, SMOOTHING=math.exp(-1 / memory), MIN_KEPT=0.0):
        return [_trained(np.random.default_rng(seed), directions) for seed in range(SEEDS)]


def _trained(dice: np.random.Generator, directions: int) -> float:
    noise = NoiseScale(BATCH)
    for step in range(0, STEPS, EVERY):
        true = math.sqrt(10 ** (1 - step / STEPS) / directions)
        each = true + math.sqrt(VAR * WORKERS / directions) * dice.standard_normal((WORKERS, directions))
        squares = float((each**2).sum(axis=1).mean()), float((each.mean(axis=0) ** 2).sum())
        noise.update(*squares, WORKERS, BATCH, EVERY)
    return noise.phi or math.inf
