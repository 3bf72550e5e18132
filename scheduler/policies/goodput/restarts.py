"""What the restart of a running job costs it: of what it gains by another size, and where it makes room. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.core.model import Allocation, HostView, JobView
from schedulearn.scheduler.policies.goodput.knapsack import Floats
from schedulearn.scheduler.policies.goodput.objective import Objective
from schedulearn.scheduler.policies.goodput.options import LEAST_SPEEDUP, Options

WAITING = 1e3  # what it costs to hold a job up altogether, against running it on one GPU
ENDING_S = 0.1  # a job that should have ended still takes so long: it must go on somewhere


class Restarts(NamedTuple):
    """What restarts cost jobs, and how long they may expect to have what they get for it; arrays (J, 1)."""

    resize: Floats
    """Seconds that it costs a job to be resized where it is."""
    move: Floats
    join: Floats
    """Seconds in which a job that grows in place goes on as it is, until its new workers have joined."""
    lasts: Floats
    """Seconds that an allocation is expected to last at least, if the job does not end before."""
    remaining: Floats
    """Seconds of work that are left on one GPU; infinite if unknown."""
    runs: npt.NDArray[np.bool_]

    def of(self, rows: Sequence[int]) -> Restarts:
        resize, move, join, lasts, remaining, runs = self
        return Restarts(resize[rows], move[rows], join[rows], lasts[rows], remaining[rows], runs[rows])

    def share(self, speedup: Floats, now: Floats, *, moves: bool = False) -> Floats:
        """What is left of each `speedup` (J, any) if a running job must restart for it; `now` (J,): its present one.
        `moves`: on another host, where nothing is done in place."""
        restart = self.move if moves else self.resize
        if not moves:
            restart = restart + self.join * np.maximum(0.0, 1 - now[:, None] / np.maximum(speedup, LEAST_SPEEDUP))
        lasts = np.minimum(self.lasts, np.maximum(self.remaining / np.maximum(speedup, 1.0), ENDING_S))
        return np.where(self.runs, lasts / np.maximum(lasts + restart, 1e-9), 1.0)


def restarts_of(objective: Objective, jobs: Sequence[JobView]) -> Restarts:
    return Restarts(
        np.array([job.restart_cost for job in jobs])[:, None],
        np.array([job.move_cost for job in jobs])[:, None],
        np.array([job.join_seconds for job in jobs])[:, None],
        np.array([objective.base_s + objective.patience * _calm_seconds(job) for job in jobs])[:, None],
        np.array([np.inf if job.remaining is None else job.remaining for job in jobs])[:, None],
        np.array([bool(job.allocation) for job in jobs])[:, None],
    )


def discount_restarts(objective: Objective, options: Options, restarts: Restarts) -> Floats:
    """S, less for every choice but the present one of a job that runs: the restart must pay within the time that an
    allocation lasts, or until the job ends. In the column to wait: 1, or what being stopped leaves."""
    value = options.speedup.copy()
    value[:, options.wait] = 1.0
    sizes = value[:, : options.stay]
    sizes *= restarts.share(sizes, value[:, options.stay])
    keep = np.array([objective.keeps(job) for job in options.jobs]) & (value[:, options.stay] > 0)
    sizes[keep] = 0.0
    return value


def _calm_seconds(job: JobView) -> float:
    """How long the job's allocations lasted, on average, or the present one, if that is longer: a job that was resized
    a dozen times when it was young and then left alone for hours is not about to be resized again. Forecasts know only
    that it has held what it holds for long enough: for as long as it runs, at most."""
    return max(job.run_seconds / (1 + job.restarts), min(job.held_seconds or 0.0, job.run_seconds))


def weighted_times(
    options: Options,
    rows: Sequence[int],
    plans: Sequence[Mapping[str, Allocation]],
    weights: Floats,
    restarts: Restarts,
    hosts: Sequence[HostView],
) -> list[float]:
    """Of each plan: what a unit of work costs the jobs of `rows` in weighted time, all together, where it puts them,
    with what they lose by restarts; `weights` and `restarts` of all jobs. A job that gets nothing counts as WAITING."""
    jobs, weight, restarts = [options.jobs[row] for row in rows], weights[rows], restarts.of(rows)
    pool_of = {host.id: options.types.index(host.gpu_type) for host in hosts}

    def speedup(row: int, allocation: Allocation) -> float:
        """Where the job gets nothing: 1, which is not looked at."""
        pools = [pool_of[host] for host in allocation if host in pool_of]
        if not pools:
            return 1.0
        return options.speedups.at(row, len(allocation), sum(allocation.values()), min(pools))

    now = np.array([speedup(row, job.allocation) for row, job in zip(rows, jobs, strict=True)])
    one_host = np.array([len(job.allocation) <= 1 for job in jobs])[:, None]
    totals = []
    for plan in plans:
        planned = [plan.get(job.id, {}) for job in jobs]
        there = np.array([speedup(row, each) for row, each in zip(rows, planned, strict=True)])[:, None]
        resized, moved = (there * restarts.share(there, now, moves=moves) for moves in (False, True))
        same = np.array([each == job.allocation for each, job in zip(planned, jobs, strict=True)])[:, None]
        stays = [each.keys() == job.allocation.keys() for each, job in zip(planned, jobs, strict=True)]
        value = np.where(same, there, np.where(one_host & np.array(stays)[:, None], resized, moved))[:, 0]
        none = np.array([not each for each in planned])
        totals.append(float((weight * np.where(none, WAITING, 1 / np.maximum(value, LEAST_SPEEDUP))).sum()))
    return totals
