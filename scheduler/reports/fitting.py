"""A job's profile from what it and its relative have reported. Pure; takes some 10 ms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from schedulearn.scheduler.core.planning.remaining_work import samples_of
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.reports.records import JobHistory, LastReport, MeasuredPasses, Relative
from schedulearn.scheduler.sim.replay import noise_at, noise_curve

if TYPE_CHECKING:
    from schedulearn.metrics.model.step_time import StepTimes

# NumPy and what needs it are imported where they are used: a service whose jobs don't report needs none of it, and it
# takes a second and memory to load.

MAX_PACE_RATIO = 4.0  # of a job to its relative, and its inverse: beyond that the one tells nothing of the other


def profile_from(own: JobHistory, relative: Relative | None) -> JobProfile | None:
    """From a job's own reports, and beside them what its relative did on GPUs and batches that the job has not tried,
    at the job's own pace. Its noise scale, until it reports one, is what its relative had at the same point of the
    training. A hint counts only until the job was measured itself. None if nothing was measured."""
    if relative is not None and relative.is_hint and own.passes:
        relative = None
    report, passes, stalls = own.report, own.passes, own.stalls
    noise = report.noise_scale if report is not None else None
    if relative is not None:
        passes = blended(passes, relative.history.passes)
        if noise is None:
            noise = _noise_of(relative.history, report)
        if relative.resized_alike:
            stalls = stalls or relative.history.stalls
        report = report or relative.history.report
    if report is None or not passes:
        return None
    return make_profile(report, passes, _median(stalls), noise)


def make_profile(
    report: LastReport,
    passes: Iterable[MeasuredPasses],
    resize_seconds: float | None = None,
    noise: float | None = None,
) -> JobProfile:
    """`passes`: at least one. `noise`: the noise scale to go by, if the report tells none."""
    from schedulearn.metrics.model.goodput import SAFE_EFFICIENCY, BatchBounds, Goodput
    from schedulearn.metrics.model.residuals import Residuals, residuals_of
    from schedulearn.metrics.model.step_time import StepTimeModel, fit, rms_relative_error

    by_type: dict[str, list[MeasuredPasses]] = {}
    for measured in passes:
        by_type.setdefault(measured.gpu_type, []).append(measured)
    models: dict[str, StepTimeModel] = {}
    errors: dict[str, float] = {}
    residuals: dict[str, Residuals] = {}
    for gpu_type, of_type in sorted(by_type.items(), key=lambda item: -item[1][-1].at):
        times = _step_times(of_type)
        models[gpu_type] = fit(times)
        errors[gpu_type] = rms_relative_error(models[gpu_type], times)
        residuals[gpu_type] = residuals_of(models[gpu_type], times)
    # Without a noise scale no batch but the smallest is known to be worth its samples.
    phi = next((known for known in (noise, report.noise_scale) if known is not None), 0.0)
    bounds = BatchBounds(*report.batch_limits)
    # The least efficiency is that by which the worker chooses its batch.
    goodput = Goodput(models, phi, bounds, min_efficiency=SAFE_EFFICIENCY, residuals=residuals)
    most = max(measured.num_gpus for of_type in by_type.values() for measured in of_type)
    return JobProfile(goodput, most, errors, resize_seconds, report.startup_seconds)


def blended(own: Sequence[MeasuredPasses], relatives: Sequence[MeasuredPasses]) -> list[MeasuredPasses]:
    """A job's own passes, behind those of a relative on GPUs and batches that the job has not tried. Times of the
    relative are scaled by how the job compares where it has. A relative that is far slower or faster tells nothing."""
    found: list[MeasuredPasses] = []
    for gpu_type in sorted({measured.gpu_type for measured in relatives}):
        of_relative = [measured for measured in relatives if measured.gpu_type == gpu_type]
        of_job = [measured for measured in own if measured.gpu_type == gpu_type]
        if own and not of_job:
            continue  # nothing tells how the two compare on this type
        ratio = _pace_ratio(of_job, of_relative)
        if 1 / MAX_PACE_RATIO <= ratio <= MAX_PACE_RATIO:
            tried = {measured.shape for measured in of_job}
            found += [measured.slower(ratio) for measured in of_relative if measured.shape not in tried]
    return [*found, *own]


def _pace_ratio(of_job: Sequence[MeasuredPasses], of_relative: Sequence[MeasuredPasses]) -> float:
    """How many times as long a pass of the job takes, in the median; 1 for a job that was not measured."""
    from schedulearn.metrics.model.step_time import fit

    if not of_job:
        return 1.0
    model = fit(_step_times(of_relative))
    ratios = [p.iter_time / float(model.iter_time(p.num_nodes, p.num_gpus, p.atomic_batch)) for p in of_job]
    return sorted(ratios)[len(ratios) // 2]


def _noise_of(relative: JobHistory, report: LastReport | None) -> float | None:
    """The noise scale that a relative had when it had done as much of its training as the job of `report`."""
    if relative.report is None:
        return None
    curve = noise_curve(relative.noise, _fraction_done(relative.report) or 1.0)  # it may have come only so far
    noise = noise_at(curve, _fraction_done(report))
    return relative.report.noise_scale if noise is None else noise


def _fraction_done(report: LastReport | None) -> float:
    """How much of its training a job has done, as far as it tells; 0 if nothing."""
    done, total = samples_of(report) or (0, 1)
    return done / total


def _median(values: Sequence[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def _step_times(passes: Sequence[MeasuredPasses]) -> StepTimes:
    import numpy as np

    from schedulearn.metrics.model.step_time import StepTimes

    return StepTimes(
        num_nodes=np.array([float(measured.num_nodes) for measured in passes]),
        num_replicas=np.array([float(measured.num_gpus) for measured in passes]),
        atomic_batch=np.array([float(measured.atomic_batch) for measured in passes]),
        grad_time=np.array([measured.grad_time for measured in passes]),
        iter_time=np.array([measured.iter_time for measured in passes]),
    )
