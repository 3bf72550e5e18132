"""Cost of restarting running jobs, for another size or another host. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.core.model import Allocation, HostView, JobView
from schedulearn.scheduler.policies.goodput.knapsack import Floats
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective
from schedulearn.scheduler.policies.goodput.options import Options
from schedulearn.scheduler.policies.goodput.tuning import Tuning


class Restarts(NamedTuple):
    """Restart costs of jobs, and how long new allocations should last; arrays (J, 1)."""

    resize: Floats
    """Seconds that it costs a job to be resized where it is."""
    move: Floats
    join: Floats
    """Seconds in which a job that grows in place goes on as it is, until its new workers have joined."""
    lasts: Floats
    """Minimum seconds that an allocation is expected to last, if the job does not end before."""
    remaining: Floats
    """Seconds of work that are left on one GPU; infinite if unknown."""
    runs: npt.NDArray[np.bool_]
    tuning: Tuning

    def of(self, rows: Sequence[int]) -> Restarts:
        resize, move, join, lasts, remaining, runs, tuning = self
        return Restarts(resize[rows], move[rows], join[rows], lasts[rows], remaining[rows], runs[rows], tuning)

    def share(self, speedup: Floats, now: Floats, *, moves: bool = False) -> Floats:
        """Return the share of each `speedup` (J, any) that is left if a running job must restart for it.

        `now` (J,): its present speedup. `moves`: the job goes to another host, where no resize is in place.
        """
        restart = self.move if moves else self.resize
        if not moves:
            gained = 1 - now[:, None] / np.maximum(speedup, self.tuning.least_speedup)
            restart = restart + self.join * np.maximum(0.0, gained)
        lasts = np.minimum(self.lasts, np.maximum(self.remaining / np.maximum(speedup, 1.0), self.tuning.ending_s))
        return np.where(self.runs, lasts / np.maximum(lasts + restart, 1e-9), 1.0)


def restarts_of(objective: GoodputObjective, jobs: Sequence[JobView]) -> Restarts:
    return Restarts(
        np.array([job.restart_cost for job in jobs])[:, None],
        np.array([job.move_cost for job in jobs])[:, None],
        np.array([job.join_seconds for job in jobs])[:, None],
        np.array([objective.base_s + objective.patience * _calm_seconds(job) for job in jobs])[:, None],
        np.array([np.inf if job.remaining is None else job.remaining for job in jobs])[:, None],
        np.array([bool(job.allocation) for job in jobs])[:, None],
        objective.tuning,
    )


def discount_restarts(objective: GoodputObjective, options: Options, restarts: Restarts) -> Floats:
    """Return S, reduced for every choice of a running job but its present one.

    The restart must pay within the time that an allocation lasts, or until the job ends. The column for waiting holds
    1, or what being stopped leaves of it.
    """
    value = options.speedup.copy()
    value[:, options.wait] = 1.0
    sizes = value[:, : options.stay]
    sizes *= restarts.share(sizes, value[:, options.stay])
    keep = np.array([objective.keeps(job) for job in options.jobs]) & (value[:, options.stay] > 0)
    sizes[keep] = 0.0
    return value


def _calm_seconds(job: JobView) -> float:
    """Return how long the job's allocations lasted on average, or the present one, if that is longer.

    A job that was resized a dozen times when it was young and then left alone for hours is not about to be resized
    again. Forecasts know only that a job has held its GPUs for long enough, so its run time is the maximum.
    """
    return max(job.run_seconds / (1 + job.restarts), min(job.held_seconds or 0.0, job.run_seconds))


def weighted_times(
    options: Options,
    rows: Sequence[int],
    plans: Sequence[Mapping[str, Allocation]],
    weights: Floats,
    restarts: Restarts,
    hosts: Sequence[HostView],
) -> list[float]:
    """Return, for each plan, the weighted time that a unit of work costs the jobs of `rows` together.

    It includes what they lose by restarts. `weights` and `restarts` are those of all jobs. A job that gets nothing
    counts as `Tuning.waiting`.
    """
    jobs, weight, restarts = [options.jobs[row] for row in rows], weights[rows], restarts.of(rows)
    tuning = options.tuning
    pool_of = {host.id: options.types.index(host.gpu_type) for host in hosts}

    def speedup(row: int, allocation: Allocation) -> float:
        """Return the speedup on `allocation`. If the job gets nothing, return 1, which is not used."""
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
        time = np.where(none, tuning.waiting, 1 / np.maximum(value, tuning.least_speedup))
        totals.append(float((weight * time).sum()))
    return totals
