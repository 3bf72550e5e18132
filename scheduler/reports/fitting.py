"""Fit of a job's profile to its own and a relative's reports.

Pure. One fit takes about 10 ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median_high
from typing import TYPE_CHECKING

from schedulearn.scheduler.core.planning.remaining_work import samples_of
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.reports.records import JobHistory, LastReport, MeasuredPasses, Relative
from schedulearn.scheduler.sim.replay import noise_at, noise_curve

if TYPE_CHECKING:
    from schedulearn.metrics.model.step_time import StepTimes

# NumPy and modules that need it are imported where they are used. A service whose jobs don't report doesn't need them,
# and loading them takes a second and memory.

MAX_PACE_RATIO = 4.0  # maximum speed ratio of a job and its relative, either way, for the relative to be informative


def profile_from(own: JobHistory, relative: Relative | None) -> JobProfile | None:
    """Return the profile of a job, or None if nothing was measured.

    The job's own reports are used first. Measurements of its relative fill in GPUs and batch sizes that the job has not
    tried, scaled to the job's speed. Until the job reports a noise scale, the one of its relative at the same point of
    the training is used. A relative that is only a hint is used until the job itself was measured.
    """
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
    return make_profile(report, passes, median_high(stalls) if stalls else None, noise)


def make_profile(
    report: LastReport,
    passes: Iterable[MeasuredPasses],
    resize_seconds: float | None = None,
    noise: float | None = None,
) -> JobProfile:
    """Return a profile from at least one of `passes`.

    `noise` is the noise scale to use. If None, the one of the report is used.
    """
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
    # Without a noise scale, only the smallest batch is known to use its samples efficiently.
    phi = next((known for known in (noise, report.noise_scale) if known is not None), 0.0)
    bounds = BatchBounds(*report.batch_limits)
    # The minimum efficiency is the one with which workers choose their batch size.
    goodput = Goodput(models, phi, bounds, min_efficiency=SAFE_EFFICIENCY, residuals=residuals)
    most = max(measured.num_gpus for of_type in by_type.values() for measured in of_type)
    return JobProfile(goodput, most, errors, resize_seconds, report.startup_seconds)


def blended(own: Sequence[MeasuredPasses], relatives: Sequence[MeasuredPasses]) -> list[MeasuredPasses]:
    """Return a relative's measurements on GPUs and batch sizes that the job has not tried, followed by the job's own.

    The relative's times are scaled by the ratio of the two jobs where both were measured. A relative that is far slower
    or faster is ignored.
    """
    found: list[MeasuredPasses] = []
    for gpu_type in sorted({measured.gpu_type for measured in relatives}):
        of_relative = [measured for measured in relatives if measured.gpu_type == gpu_type]
        of_job = [measured for measured in own if measured.gpu_type == gpu_type]
        if own and not of_job:
            continue  # the ratio of the two on this type is unknown
        ratio = _pace_ratio(of_job, of_relative)
        if 1 / MAX_PACE_RATIO <= ratio <= MAX_PACE_RATIO:
            tried = {measured.shape for measured in of_job}
            found += [measured.slower(ratio) for measured in of_relative if measured.shape not in tried]
    return [*found, *own]


def _pace_ratio(of_job: Sequence[MeasuredPasses], of_relative: Sequence[MeasuredPasses]) -> float:
    """Return the median ratio of the job's micro-step times to the relative's; 1 for a job without measurements."""
    from schedulearn.metrics.model.step_time import fit

    if not of_job:
        return 1.0
    model = fit(_step_times(of_relative))
    ratios = [p.iter_time / float(model.iter_time(p.num_nodes, p.num_gpus, p.atomic_batch)) for p in of_job]
    return median_high(ratios)


def _noise_of(relative: JobHistory, report: LastReport | None) -> float | None:
    """Return the noise scale of a relative at the point of training that the job of `report` has reached."""
    if relative.report is None:
        return None
    curve = noise_curve(relative.noise, _fraction_done(relative.report) or 1.0)  # its training may not be complete
    noise = noise_at(curve, _fraction_done(report))
    return relative.report.noise_scale if noise is None else noise


def _fraction_done(report: LastReport | None) -> float:
    """Return the reported fraction of a job's training that is done; 0 if unknown."""
    done, total = samples_of(report) or (0, 1)
    return done / total


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
