"""The batch: chosen by what is sure, the same on any number of workers, and back where it does harm."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.metrics.model.goodput import BatchBounds, efficiency
from schedulearn.worker.batch.choice import Batch
from schedulearn.worker.batch.guard import FIRST_PAUSE, MIN_MEASURED, MIN_STEPS, RAMP_STEPS, TRIAL_STEPS, BatchGuard

MODEL = {"alpha_grad": 0.02, "beta_grad": 1e-4, "alpha_local": 0.02, "beta_local": 1e-3, "alpha_node": 0.1,
         "beta_node": 0.01, "gamma": 1.5}  # fmt: skip
ANSWER: dict[str, Any] = {"models": {"gpu": MODEL}, "gpu_type": "gpu", "use_efficiency": True}


def test_the_batch_grows_with_the_noise_and_says_why() -> None:
    batch = Batch(BatchBounds(64, 2048, min_local=8, max_local=128), 1, 4)
    assert (batch.total, batch.atomic, batch.accumulation) == (64, 16, 0)
    choice = batch.best(ANSWER, 5000.0, 2048)
    assert choice is not None
    assert choice.total > 256
    assert "noise scale of at least 5000" in choice.why
    assert batch.best(ANSWER, None, 2048) is None, "without a noise scale nothing is known of larger batches"
    assert batch.best({"models": {}}, 5000.0, 2048) is None
    smaller = batch.best(ANSWER, 5000.0, 128)
    assert smaller is not None
    assert smaller.total <= 128, "not further than allowed now"
    assert batch.best(ANSWER, 5000.0, 64) is None


@pytest.mark.parametrize("use_efficiency", [True, False])
@pytest.mark.parametrize("phi", [0.0, 10.0, 300.0, 2000.0, 1e7])
def test_no_batch_is_chosen_at_which_samples_are_wasted(phi: float, use_efficiency: bool) -> None:
    """The epochs of a job are fixed: what a sample is worth less at a larger batch, training lacks at its end."""
    batch = Batch(BatchBounds(64, 2048), 1, 2)
    choice = batch.best({**ANSWER, "use_efficiency": use_efficiency}, phi, 2048)
    assert choice is not None or phi < 100
    if choice is not None:
        assert efficiency(phi, 64, choice.total) >= 0.5


def test_a_batch_that_has_become_too_large_shrinks_at_once() -> None:
    batch = Batch(BatchBounds(64, 2048), 1, 2)
    batch.choose(1024, "")
    assert batch.best(ANSWER, 9000.0, 1024) is None
    choice = batch.best(ANSWER, 300.0, 1024)
    assert choice is not None
    assert choice.total <= 300 + 2 * 64
    assert "too inefficient" in choice.why


def test_a_batch_that_does_not_fit_is_accumulated() -> None:
    batch = Batch(BatchBounds(256, 256, max_local=48), 1, 1)
    assert (batch.total, batch.atomic, batch.accumulation) == (256, 43, 5)
    assert batch.best({"models": {"gpu": MODEL}}, 1e6, 512) is None, "max_batch is the first one: it stays"


@given(
    batch=st.integers(1, 4096), sizes=st.lists(st.integers(1, 64), min_size=1, max_size=8),
    max_local=st.none() | st.integers(1, 512), accumulate=st.booleans(),
)  # fmt: skip
def test_other_workers_change_nothing_about_the_batch(
    batch: int, sizes: list[int], max_local: int | None, accumulate: bool
) -> None:
    made = Batch(BatchBounds(batch, batch, 1, max_local, accumulate), 1, 1)
    for workers in sizes:
        made.resize(workers)
        least = workers
        most = workers * max_local if max_local is not None and not accumulate else batch
        assert made.total == max(least, min(batch, most))
        assert workers * made.atomic * (made.accumulation + 1) >= made.total
        assert max_local is None or made.atomic <= max_local
    made.resize(1)
    assert made.chosen == batch


# --- when it may grow, and when it goes back ---


def guard_at(total: int, steps: int = 400, power: float = 1.0) -> BatchGuard:
    """One whose batch has grown from 64 after so many quiet steps."""
    guard = BatchGuard(64)
    random = np.random.default_rng(0)
    for _ in range(steps):
        guard.see_gradient(power * random.lognormal(0, 0.3))
        guard.step(1.0)
    guard.begin(total)
    return guard


def test_a_batch_stays_for_some_steps_before_it_may_grow() -> None:
    guard = BatchGuard(64)
    for batch in (64, 128, 256):
        guard.begin(batch)
        for number in range(MIN_STEPS):
            assert not guard.may_grow, "so soon"
            if number < MIN_MEASURED:
                guard.see_gradient(1.0)
            guard.step(1.0)
        assert guard.may_grow
    guard.begin(512)
    for _ in range(2 * MIN_STEPS):
        guard.step(1.0)
    assert not guard.may_grow, "nothing is measured at this batch"


def test_the_learning_rate_follows_a_larger_batch_in_steps_and_a_smaller_one_at_once() -> None:
    guard = guard_at(128)
    factors = []
    for _ in range(2 * RAMP_STEPS):
        guard.step(1.9)
        factors.append(guard.factor)
    assert factors[-1] == 1.9
    assert max(after / before for before, after in pairwise(factors)) < 1.02
    guard.step(1.2)
    assert guard.factor == 1.2


def test_a_quiet_training_keeps_its_batch() -> None:
    guard = guard_at(128)
    random = np.random.default_rng(1)
    for number in range(5000):  # its gradients become slowly ten times as large, as they may late in training
        guard.see_gradient(10 ** (number / 5000) * random.lognormal(0, 0.3))
        guard.step(1.9)
        assert guard.retreat() is None
    assert guard.may_grow


def test_gradients_that_grow_take_the_batch_back_and_hold_it_there() -> None:
    guard = guard_at(256)
    retreat, steps = None, 0
    while retreat is None and steps < 60:
        steps += 1
        guard.see_gradient(20.0)
        guard.step(3.5)
        retreat = guard.retreat()
    assert retreat is not None
    assert (retreat.total, retreat.severe) == (64, False)
    assert "gradient grew" in retreat.why
    guard.begin(retreat.total)
    guard.step(1.0)
    assert guard.factor == 1.0, "at once"
    for _ in range(FIRST_PAUSE - 2):
        guard.see_gradient(1.0)
        guard.step(1.0)
        assert not guard.may_grow
    for _ in range(2):
        guard.step(1.0)
    assert guard.may_grow


def test_a_batch_that_grew_twice_goes_back_by_one() -> None:
    guard = guard_at(128)
    for _ in range(MIN_STEPS):
        guard.see_gradient(1.0)
        guard.step(2.0)
    guard.begin(256)
    for _ in range(30):
        guard.see_gradient(50.0)
        if retreat := guard.retreat():
            break
    assert retreat is not None
    assert retreat.total == 128


@pytest.mark.parametrize("powers", [[float("nan")] * 2, [float("inf")] * 2, [1e9] * 8])
def test_gradients_beyond_measure_take_the_weights_back_too(powers: list[float]) -> None:
    guard = guard_at(256)
    found = []
    for power in powers:
        guard.see_gradient(power)
        found.append(guard.retreat())
    worst = next(each for each in found if each is not None)
    assert (worst.total, worst.severe) == (64, True)


def losses(guard: BatchGuard, values: Sequence[float]) -> bool:
    for value in values:
        guard.see_loss(value)
    retreat = guard.retreat()
    return retreat is not None and retreat.severe


def test_a_logged_loss_that_explodes_takes_the_weights_back() -> None:
    falling = [2.3, 1.1, 0.5, 0.3, 0.2, 0.17, 0.16, 0.18, 0.15, 0.14]
    for bad in (39.5, float("nan"), 1.4):
        guard = BatchGuard(64)
        assert not losses(guard, falling)
        guard.begin(128)
        assert losses(guard, [bad]), bad
    for fine in ([0.3, 0.1, 0.2], [0.001, 0.2]):  # the loss of a last batch varies
        guard = BatchGuard(64)
        losses(guard, falling)
        guard.begin(128)
        assert not losses(guard, fine)
    guard = BatchGuard(64)
    assert not losses(guard, [*falling, 39.5]), "at the first batch it is not the batch's fault"


def test_each_time_it_goes_back_it_waits_twice_as_long() -> None:
    guard = guard_at(128)
    pauses = []
    for _ in range(4):
        guard.begin(128)
        guard.see_gradient(float("nan"))
        guard.see_gradient(float("nan"))
        retreat = guard.retreat()
        assert retreat is not None
        guard.begin(retreat.total)
        pauses.append(int(retreat.why.split()[-2]))
    assert pauses == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, 8 * FIRST_PAUSE]


def test_the_next_attempt_goes_on_as_the_one_before() -> None:
    guard = guard_at(128)
    for _ in range(TRIAL_STEPS // 2):
        guard.step(1.9)
    other = BatchGuard(64)
    other.restore(guard.state())
    for each in (guard, other):
        each.see_gradient(1.0)
        each.step(1.9)
    assert other.state() == guard.state()
    assert other.factor == guard.factor > 1.8
    assert other.on_trial
