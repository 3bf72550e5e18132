"""The simulator's jobs change their batch by the worker SDK's own rule."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.metrics.model.batch_rule import MIN_STEPS, RAMP_STEPS, ramp_steps
from schedulearn.metrics.model.goodput import SAFE_EFFICIENCY, BatchBounds, efficiency
from schedulearn.metrics.model.step_time import StepTimeModel
from schedulearn.scheduler.sim.application import measured_applications
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.jobs.batch_choice import Way, batch_choice
from schedulearn.scheduler.sim.jobs.training import EventKind, Training
from schedulearn.scheduler.sim.workload import TraceJob
from schedulearn.worker.batch.choice import Batch

MODEL = StepTimeModel(0.02, 1e-4, 0.02, 1e-3, 0.1, 0.01, 1.5)
CIFAR10 = measured_applications()["cifar10"]


@given(
    phi=st.floats(1, 1e6), gpus=st.integers(1, 16), chosen=st.integers(64, 2048), growth=st.sampled_from([1.0, 2.0]),
    max_local=st.none() | st.integers(8, 256),
)  # fmt: skip
def test_a_simulated_worker_goes_on_with_the_batch_of_a_real_one(
    phi: float, gpus: int, chosen: int, growth: float, max_local: int | None
) -> None:
    bounds = BatchBounds(64, 2048, max_local=max_local)
    real = Batch(bounds, 1, gpus)
    real.choose(chosen, "")
    largest = int(growth * real.total)
    answer = {"models": {"gpu": vars(MODEL)}, "gpu_type": "gpu"}
    choice = real.best(answer, phi, largest)
    way = Way(True, 1.05, True, SAFE_EFFICIENCY, largest)
    simulated = batch_choice((("gpu", MODEL),), bounds, (), way, 1, gpus, real.total, "gpu")
    assert simulated.learn(phi, np.empty(0)) == (real.total if choice is None else choice.total)


def course(training: Training, seconds: float) -> list[tuple[float, int]]:
    """When it had which batch, over so many seconds from now on."""
    now = end = training.clock
    end += seconds
    batches = [(now, training.batch)]
    while (event := training.next_event(now)) is not None and event.kind is not EventKind.END and event.at < end:
        now = event.at
        training.advance(now)
        training.reach(event)
        if training.batch != batches[-1][1]:
            batches.append((now, training.batch))
    training.advance(end)
    return batches


def started(conditions: Conditions) -> Training:
    training = Training(TraceJob("a", 0.0, CIFAR10), conditions)
    training.give({"h": 4}, "gpu", 0.0, 0.0)
    return training


def test_a_batch_at_most_doubles_and_not_before_it_has_made_its_steps() -> None:
    training = started(Conditions())
    batches = course(training, 3600)
    assert len(batches) > 3
    for (began, before), (ended, after) in pairwise(batches):
        assert after <= 2 * before
        _, step = CIFAR10.step((4,), before, 1.0)
        assert ended - began >= MIN_STEPS * step * (1 - 1e-6)


def test_a_sample_in_a_larger_batch_is_surely_worth_half_of_one_in_the_first() -> None:
    training = started(Conditions())
    while training.clock < 3600:
        before = training.batch
        course(training, 10.0)
        if training.batch > before:
            assert training.phi is not None
            sure = training.conditions.noise_believed * training.phi
            assert efficiency(sure, CIFAR10.bounds.init_batch, training.batch) >= 0.5
    assert training.batch > CIFAR10.bounds.init_batch


def test_a_batch_is_kept_on_other_gpus() -> None:
    training = started(Conditions())
    course(training, 600)
    before = training.batch
    assert before > CIFAR10.bounds.init_batch
    training.give({"h": 4, "i": 2}, "gpu", 5.0, training.clock)
    assert training.batch == before


@pytest.mark.parametrize("grown", [1.0, 1.5, 2.0])
def test_the_learning_rate_costs_what_a_batch_is_worth_less_until_it_has_followed(grown: float) -> None:
    factors = 2 ** (np.arange(0, 200, 0.01) / RAMP_STEPS)
    lost = (1 - np.minimum(factors, grown) / grown).sum() * 0.01
    assert ramp_steps(100, 100 * grown) == pytest.approx(lost, rel=1e-3, abs=1e-3)
    assert ramp_steps(100, 50) == 0
