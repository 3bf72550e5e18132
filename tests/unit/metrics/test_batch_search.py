"""Candidates that are kept between searches change nothing, whoever searches beside."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from schedulearn.metrics.model import batch_search
from schedulearn.metrics.model.goodput import BatchBounds, Goodput, goodput_table
from schedulearn.metrics.model.step_time import StepTimeModel

GPUS = np.array([1, 2, 3, 4, 8, 12, 16, 32])
NODES = -(-GPUS // 4)


def jobs(count: int, seed: int) -> list[Goodput]:
    dice = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        model = StepTimeModel(*dice.uniform(0.001, 0.1, 6).tolist(), gamma=float(dice.uniform(1, 3)))
        init, least = int(dice.integers(8, 200)), int(dice.integers(1, 8))
        bounds = BatchBounds(init, init * int(dice.integers(1, 40)), least, least * int(dice.integers(4, 60)))
        found.append(Goodput({"gpu": model}, float(dice.uniform(0, 5000)), bounds))
    return found


def test_many_threads_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [jobs(20, seed) for seed in range(12)]
    monkeypatch.setattr(batch_search, "_everything", batch_search._Kept())
    alone = [goodput_table(each, NODES, GPUS) for each in some]
    again = [jobs(20, seed) for seed in range(12)]
    monkeypatch.setattr(batch_search, "_everything", batch_search._Kept())
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda each: goodput_table(each, NODES, GPUS), again))
    for one, other in zip(alone, together, strict=True):
        assert (one == other).all()


def test_what_is_kept_is_bounded_and_forgetting_it_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = goodput_table(jobs(40, 1), NODES, GPUS)
    monkeypatch.setattr(batch_search, "_MAX_KEPT", 50)
    for seed in range(5):
        goodput_table(jobs(40, seed), NODES, GPUS)
        assert len(batch_search._kept()._bounds) <= 50 + 40 * len(GPUS)
    assert (goodput_table(jobs(40, 1), NODES, GPUS) == before).all()


def test_sizes_beyond_a_jobs_most_are_not_looked_at_and_the_others_are_the_same() -> None:
    whole, few = jobs(10, 3), jobs(10, 3)
    limits = [1, 2, 3, 4, 8, 12, 16, 32, 5, 20]
    limited = goodput_table(few, NODES, GPUS, most=limits)
    for row, values, limit in zip(limited, goodput_table(whole, NODES, GPUS), limits, strict=True):
        assert (row[limit >= GPUS] == values[limit >= GPUS]).all()
        assert (row[limit < GPUS] == 0).all()
