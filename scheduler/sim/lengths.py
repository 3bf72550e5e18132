"""Run times of jobs, as far as a simulation's conditions reveal them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from schedulearn.scheduler.core.model import Basis
from schedulearn.scheduler.core.planning.remaining_work import Length, by_family, pace
from schedulearn.scheduler.core.predictions.run_times import RunTimes
from schedulearn.scheduler.sim.application import UNNAMED
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.jobs.training import Training
from schedulearn.scheduler.sim.workload import TraceJob

BASES = {"declared": Basis.PROGRESS, "predicted": Basis.FAMILY}
"""Basis by `Conditions.lengths`. With any other value, run times are unknown."""


def length_errors(jobs: Sequence[TraceJob], conditions: Conditions) -> dict[str, float]:
    """Return job -> factor by which its declared work is wrong."""
    dice = random.Random(conditions.seed)  # noqa: S311
    spread = math.log(conditions.length_error)
    return {job.id: math.exp(dice.uniform(-spread, spread)) for job in sorted(jobs, key=lambda j: j.id)}


def remaining(training: Training, error: float) -> Length | None:
    """Return the remaining time, as far as the conditions reveal it. `error`: factor on the declared work."""
    basis = _basis(training)
    seconds = None if basis is None else _seconds_left(training, error)
    return None if basis is None or seconds is None else Length(seconds, basis)


def expected_left(training: Training, run_times: RunTimes) -> float | None:
    """Return the expected seconds left of a rigid job; None: the job is elastic, or no job has ended.

    In a forecast, it is the time that the forecast itself assumes.
    """
    job = training.job
    if job.elastic:
        return None
    if job.running is not None:
        return max(0.0, training.application.total_steps - training.progress)
    return run_times.left(job.user, job.required_gpus, training.held_for)


def _basis(training: Training) -> Basis | None:
    """Return the less trustworthy basis of the conditions and of a job that ran before."""
    allowed, running = BASES.get(training.conditions.lengths), training.job.running
    if allowed is None or running is None or running.basis is None:
        return allowed if running is None else None
    return max(allowed, running.basis, key=list(Basis).index)


def _seconds_left(training: Training, error: float) -> float | None:
    """Return the remaining seconds on one GPU; None if unknown."""
    total = None
    if training.conditions.lengths == "declared":
        total = training.application.total_steps * error
    elif training.family is not None and training.family.lengths and training.application.name != UNNAMED:
        total = sum(training.family.lengths) / len(training.family.lengths)
    if total is None:
        return None
    if training.application.times is None:
        length = by_family(total, training.progress, rigid=not training.job.elastic)
        return None if length is None else length.seconds * training.job.required_gpus
    left = max(total - training.progress, 0.05 * total)
    if training.known is not None:
        return left * training.application.bounds.init_batch / pace(training.known, training.job.min_gpus)
    believed = training.goodput()
    if believed is None:
        return None
    return left * training.application.bounds.init_batch / float(believed(1, 1))
