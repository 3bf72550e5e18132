"""Options of each job: sizes on each GPU type, waiting, and staying."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schedulearn.scheduler.core.model import HostView, JobView
from schedulearn.scheduler.policies.goodput.knapsack import Floats, Ints
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective
from schedulearn.scheduler.policies.goodput.packing import Want, stays_possible
from schedulearn.scheduler.policies.goodput.speedups import Speedups, columns_of, measure
from schedulearn.scheduler.policies.goodput.tuning import Tuning


@dataclass(frozen=True)
class Options:
    """Choices of J jobs, C each. The last two columns are waiting and staying."""

    jobs: tuple[JobView, ...]
    types: tuple[str, ...]
    gpus: Ints
    """(J, C): GPUs of open hosts that a choice takes."""
    size: Ints
    """(J, C): GPUs that the job would have."""
    pool: Ints
    """(J, C): index into `types`."""
    speedup: Floats
    """(J, C): S, 0 where not allowed."""
    capacity: Ints
    """(P,): GPUs of open hosts by type, less what jobs hold that must not change."""
    total: int
    """GPUs of open hosts."""
    speedups: Speedups
    tuning: Tuning
    barred: npt.NDArray[np.bool_] | None = None
    """(J, P): whether a job can't have GPUs of a type; None: each may have all."""

    @property
    def one_host(self) -> Floats:
        """(J, P, width): S on 1, 2, ... GPUs of one host of each type, 0 where not allowed."""
        found = self.speedups.one_host
        return found if self.barred is None else np.where(self.barred[:, :, None], 0.0, found)

    @property
    def charged(self) -> Floats:
        """(J, C): GPUs that the job would have, a fast one counted as the slow ones that it is worth.

        With one price for all, a price that is right for fast GPUs would leave the slow ones idle.
        """
        return np.asarray(self.size * self.speedups.worth[self.pool])

    @property
    def stay(self) -> int:
        return int(self.gpus.shape[1]) - 1

    @property
    def wait(self) -> int:
        return int(self.gpus.shape[1]) - 2

    def want(self, row: int, column: int) -> Want:
        return Want(int(self.size[row, column]), self.types[self.pool[row, column]], column == self.stay)


def build_options(
    jobs: tuple[JobView, ...],
    hosts: tuple[HostView, ...],
    objective: GoodputObjective | None = None,
    keeping: Set[str] = frozenset(),
) -> Options:
    """Return the choices of each job: sizes, waiting and staying.

    Sizes are 1, 2, 4, ... within a host, then whole hosts, and all minimum and required sizes of jobs. `objective`:
    None: jobs are judged by their goodput, at no price. Where a GPU has a price floor, jobs that were measured on one
    GPU only count as twice as fast on two. `keeping`: elastic jobs that must not change, like rigid ones.
    """
    pools, tuning = _pools_of(hosts), objective.tuning if objective is not None else Tuning()
    low = np.array([job.needed_gpus for job in jobs])[:, None]
    high = np.array([job.max_gpus if job.elastic else job.required_gpus for job in jobs])[:, None]
    # Jobs that take left-over GPUs may get any number of them.
    fills = objective is not None and any(objective.takes_spare_gpus(job) for job in jobs)
    limits = tuple(np.minimum(pools.capacity, high.max()).tolist())
    columns = columns_of(pools.types, pools.widths, limits, tuple(np.unique(low).tolist()), fills)
    speedups = measure(jobs, columns, objective)
    speedup = speedups.packed.copy()
    priced = np.array([objective is not None and objective.price_floor_of(job) > 0 for job in jobs])[:, None]
    if priced.any():
        # Measurements on one GPU don't show how a job scales. At a price, the cautious fit of one batch would keep the
        # job there.
        untried = np.array([job.goodput is not None and job.profiled_gpus == 1 for job in jobs])[:, None]
        speedup = np.where(untried & priced & (columns.size == 2), np.maximum(speedup, tuning.untried_speedup), speedup)
    fixed = np.array([bool(job.allocation) and not job.elastic for job in jobs])[:, None]  # may neither move nor change
    speedup[(columns.size < low) | (columns.size > high) | fixed] = 0.0
    barred = None
    if any(job.unfit for job in jobs):
        barred = np.array([[kind in job.unfit for kind in pools.types] for job in jobs])
        speedup[barred[:, columns.pool]] = 0.0
    size = np.tile(np.concatenate([columns.size, [0, 0]]).astype(np.int64), (len(jobs), 1))
    found = Options(
        jobs,
        pools.types,
        gpus=size.copy(),
        size=size,
        pool=np.tile(np.concatenate([columns.pool, [0, 0]]).astype(np.int64), (len(jobs), 1)),
        speedup=np.concatenate([speedup, np.zeros((len(jobs), 2))], axis=1),
        capacity=pools.capacity,
        total=sum(host.gpus for host in pools.open_hosts.values()),
        speedups=speedups,
        tuning=tuning,
        barred=barred,
    )
    _let_stay(found, hosts, pools, keeping)
    return found


@dataclass(frozen=True)
class _Pools:
    """The GPUs of open hosts by type."""

    types: tuple[str, ...]
    open_hosts: dict[str, HostView]
    widths: tuple[int, ...]
    """GPUs of the largest host of each type."""
    capacity: Ints


def _pools_of(hosts: Sequence[HostView]) -> _Pools:
    types = tuple(sorted({host.gpu_type for host in hosts}))
    open_hosts = {host.id: host for host in hosts if host.open and host.gpus}
    by_type = [[host.gpus for host in open_hosts.values() if host.gpu_type == gpu_type] for gpu_type in types]
    capacity = np.array([sum(gpus) for gpus in by_type], dtype=np.int64)
    return _Pools(types, open_hosts, tuple(max(gpus, default=1) for gpus in by_type), capacity)


def _let_stay(options: Options, hosts: Sequence[HostView], pools: _Pools, keeping: Set[str]) -> None:
    """Fill the last column for jobs that may keep what they hold.

    Subtract from `capacity` what jobs hold that must not change, of whichever types: other jobs can't have it.
    """
    able = stays_possible(options.jobs, hosts)
    type_of = {host.id: host.gpu_type for host in hosts}
    index = {gpu_type: pool for pool, gpu_type in enumerate(options.types)}
    for row, job in enumerate(options.jobs):
        if job.id not in able:
            continue
        pool = min(index[type_of[host]] for host in job.allocation)
        in_open_hosts = {host: gpus for host, gpus in job.allocation.items() if host in pools.open_hosts}
        options.size[row, -1] = job.gpus
        options.pool[row, -1] = pool
        if job.elastic and job.id not in keeping:
            options.gpus[row, -1] = sum(in_open_hosts.values())
        else:
            for host, gpus in in_open_hosts.items():
                options.capacity[index[type_of[host]]] -= gpus
        here = options.speedups.at(row, len(job.allocation), job.gpus, pool)
        options.speedup[row, -1] = max(here, options.tuning.least_speedup)
