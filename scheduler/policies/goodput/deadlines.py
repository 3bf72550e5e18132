"""Deadlines: choices that would make a protected job late. Pure.

Every job with a deadline has a minimum speed: its work over the time that is left. A job that can still be in time is
protected, the earliest deadline first. Protected jobs may together need at most a bounded share of the GPUs. Choices
that would make a protected job late cost extra. A job that can't be in time any more, on any GPUs it may have, counts
like one without a deadline: GPUs that it took from others would be wasted. (Minimum satisfactory shares, as in
ElasticFlow, ASPLOS 2023, without its guarantee: no job is rejected here.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.policies.goodput.knapsack import Floats, Ints
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective
from schedulearn.scheduler.policies.goodput.options import Options
from schedulearn.scheduler.policies.goodput.prices import remaining_work
from schedulearn.scheduler.policies.goodput.tuning import Tuning


class Lateness(NamedTuple):
    late: npt.NDArray[np.bool_]
    """(J, C): choices that would make a protected job late; False for all other jobs."""
    protected: npt.NDArray[np.bool_]
    """(J,): jobs that have such choices, and others that keep them in time."""


def lateness(objective: GoodputObjective, options: Options, now: float, capacity: Ints) -> Lateness:
    late = np.zeros(options.speedup.shape, dtype=bool)
    protected = np.zeros(len(options.jobs), dtype=bool)
    with_deadline = sorted(
        (job.deadline, job.order, row)
        for row, job in enumerate(options.jobs)
        if job.deadline is not None and job.deadline > now
    )
    if not objective.deadline_share or not with_deadline:
        return Lateness(late, protected)
    rows = np.array([row for _, _, row in with_deadline])
    too_slow = _too_slow(options, rows, np.array([deadline - now for deadline, _, _ in with_deadline])[:, None])
    able = options.speedup[rows] > 0
    in_time = able & ~too_slow
    able[:, options.wait] = True
    least = np.where(in_time, options.size[rows], np.iinfo(np.int64).max).min(axis=1)
    bound, taken = objective.deadline_share * float(capacity.sum()), 0
    for at in np.flatnonzero(in_time.any(axis=1) & (too_slow & able).any(axis=1)):
        if taken + least[at] <= bound:  # else a smaller job with a later deadline may still fit
            taken += int(least[at])
            late[rows[at]], protected[rows[at]] = too_slow[at], True
    return Lateness(late, protected)


def _too_slow(options: Options, rows: Ints, left: Floats) -> npt.NDArray[np.bool_]:
    """Return the choices that would end a job after its deadline, (rows, C). `left` (rows, 1): seconds to it."""
    jobs, speed, tuning = [options.jobs[row] for row in rows], options.speedup[rows], options.tuning
    elsewhere = left - np.array([job.restart_cost if job.allocation else 0.0 for job in jobs])[:, None]
    work = remaining_work(options.jobs, tuning, compared=False)[rows, None]
    fastest = speed.max(axis=1, keepdims=True, initial=0.0)
    # Such a job would be late on the GPUs that it may be tried on now, but not on more.
    grows = (fastest * left < work) & (work <= tuning.growth * fastest * left)
    work = np.where(grows, fastest * left / tuning.headroom, work)
    slow = speed * elsewhere < tuning.headroom * work
    slow[:, options.stay] = (speed[:, [options.stay]] * left < tuning.headroom_here * work)[:, 0]
    sizes = speed[:, : options.wait]
    least = np.where(sizes > 0, sizes, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    with np.errstate(invalid="ignore"):  # no size at all, and no time
        slow[:, options.wait] = (least * elsewhere < tuning.deadline_waits * work)[:, 0]
    return np.asarray(slow)


def charge(cost: Floats, held_up: Floats, found: Lateness, wait: int, tuning: Tuning) -> None:
    """Add the cost of lateness to the (J, C) `cost`; `held_up` (J, 1): cost of delaying each job."""
    extra = np.where(found.late, tuning.late * held_up, 0.0)
    extra[:, wait] = 0.0
    cost += extra
    cost[:, wait] *= np.where(found.late[:, wait], tuning.start_now, 1.0)
