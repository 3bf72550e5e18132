"""What each job may choose from: sizes on each type of GPU with the speedup of each, to wait, and to stay."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedulearn.metrics.model.goodput import Goodput, goodput_table
from schedulearn.scheduler.core.model import HostView, JobView
from schedulearn.scheduler.policies.goodput.knapsack import Floats, Ints
from schedulearn.scheduler.policies.goodput.objective import Objective
from schedulearn.scheduler.policies.goodput.packing import Want, stays_possible

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import GoodputFunction

LEAST_SPEEDUP = 1e-6  # of a job where it stays: what stands still may stay too


@dataclass(frozen=True)
class Goodputs:
    """How fast each job would be where it might be: S, against one GPU of the slowest type that it can use. A job that
    was not measured scales perfectly."""

    functions: list[GoodputFunction | None]
    unit: Floats
    """(J,): of one GPU, samples a second."""
    one_host: Floats
    """(J, P, any): S on 1, 2, ... GPUs of one host of each type: as many as the largest host has, if any job may take
    spare GPUs."""
    packed: Floats
    """(J, columns): S on sizes that are looked at, on as few hosts as hold them."""
    column: dict[tuple[int, int, int], int]
    """(hosts, GPUs, index of their type) -> the column of `packed`."""
    worth: Floats
    """(P,): what one GPU of each type does against one of the slowest, on average over the jobs that were measured."""
    types: tuple[str, ...]

    def speedup(self, row: int, hosts: int, gpus: int, pool: int) -> float:
        """S of a job on exactly that."""
        if hosts == 1 and gpus <= self.one_host.shape[2]:
            return float(self.one_host[row, pool, gpus - 1])
        if (column := self.column.get((hosts, gpus, pool))) is not None:
            return float(self.packed[row, column])
        if (function := self.functions[row]) is None:
            return gpus
        here = function(np.array([hosts]), np.array([gpus]), self.types[pool] if len(self.types) > 1 else None)
        return float(here[0]) / float(self.unit[row])


@dataclass(frozen=True)
class Options:
    """What there is to choose from: J jobs, C choices each. The last two columns are to wait and to stay."""

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
    """(P,): GPUs of open hosts by type, less what rigid jobs hold."""
    total: int
    """GPUs of open hosts."""
    goodputs: Goodputs

    @property
    def charged(self) -> Floats:
        """(J, C): GPUs that the job would have, a fast one counted as so many slow ones: at one price for all, what is
        right for the fast ones would leave the slow ones idle."""
        return np.asarray(self.size * self.goodputs.worth[self.pool])

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
    objective: Objective | None = None,
    keeping: Set[str] = frozenset(),
) -> Options:
    """Sizes 1, 2, 4, ... within a host, then whole hosts; what bounds and rigid jobs ask for; to wait; to stay.
    `objective`: None: jobs are judged by their goodput, at no price. Where a GPU has a price of its own, jobs that were
    measured on one alone count as twice as fast on two. `keeping`: elastic jobs that are not to be changed either."""
    pools = _pools_of(hosts)
    low = np.array([job.min_gpus if job.elastic else job.required_gpus for job in jobs])[:, None]
    high = np.array([job.max_gpus if job.elastic else job.required_gpus for job in jobs])[:, None]
    columns = _columns(pools, low, high)
    goodputs = _measure(jobs, pools, columns, objective)
    speedup = goodputs.packed.copy()
    priced = np.array([objective is not None and objective.price_floor_of(job) > 0 for job in jobs])[:, None]
    if priced.any():
        # Of one GPU alone nobody learns how a job scales, and at a price the cautious fit of one batch would keep it
        # there.
        untried = np.array([job.goodput is not None and job.profiled_gpus == 1 for job in jobs])[:, None]
        speedup = np.where(untried & priced & (columns.size == 2), np.maximum(speedup, 2.0), speedup)
    fixed = np.array([bool(job.allocation) and not job.elastic for job in jobs])[:, None]  # may neither move nor change
    speedup[(columns.size < low) | (columns.size > high) | fixed] = 0.0
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
        goodputs=goodputs,
    )
    _let_stay(found, hosts, pools, keeping)
    return found


@dataclass(frozen=True)
class _Pools:
    """The GPUs of open hosts by type."""

    types: tuple[str, ...]
    open_hosts: dict[str, HostView]
    widths: list[int]
    """GPUs of the largest host of each type."""
    capacity: Ints


def _pools_of(hosts: Sequence[HostView]) -> _Pools:
    types = tuple(sorted({host.gpu_type for host in hosts}))
    open_hosts = {host.id: host for host in hosts if host.open and host.gpus}
    by_type = [[host.gpus for host in open_hosts.values() if host.gpu_type == gpu_type] for gpu_type in types]
    capacity = np.array([sum(gpus) for gpus in by_type], dtype=np.int64)
    return _Pools(types, open_hosts, [max(gpus, default=1) for gpus in by_type], capacity)


@dataclass(frozen=True)
class _Columns:
    """The sizes that are looked at, the same ones for all jobs."""

    size: Ints
    pool: Ints
    hosts: Ints
    """On how many hosts such a job is."""


def _columns(pools: _Pools, low: Ints, high: Ints) -> _Columns:
    most = np.minimum(pools.capacity, high.max())
    blocks = [_sizes(width, int(limit), low) for width, limit in zip(pools.widths, most, strict=True)]
    size = np.concatenate(blocks)
    pool = np.concatenate([np.full(len(block), index) for index, block in enumerate(blocks)])
    return _Columns(size, pool, -(-size // np.array(pools.widths)[pool]))


def _sizes(width: int, most: int, least: Ints) -> Ints:
    """Sizes worth looking at on hosts of `width` GPUs, `most` in all: finer where they are small. Those that some job
    has at `least` are among them."""
    sizes = {int(size) for size in np.unique(least) if 1 <= size <= most}
    k = 1
    while k < width:
        sizes.add(k)
        k *= 2
    hosts, step = 1, 1
    while hosts * width <= most:
        sizes.add(hosts * width)
        step = 1 if hosts < 8 else 2 if hosts < 16 else max(4, hosts // 5)
        hosts += step
    return np.array(sorted(sizes), dtype=np.int64)


def _measure(jobs: Sequence[JobView], pools: _Pools, columns: _Columns, objective: Objective | None) -> Goodputs:
    functions = [goodput_of(job, objective) for job in jobs]
    types = pools.types
    # On one host of each type come first: one GPU is what speedups are measured by, and more may be left over.
    fills = objective is not None and any(objective.takes_spare_gpus(job) for job in jobs)
    width = max(pools.widths) if fills else 1
    within = np.tile(np.arange(1, width + 1), len(types))
    gpus = np.concatenate([within, columns.size])
    nodes = np.concatenate([np.ones_like(within), columns.hosts])
    pool = np.concatenate([np.repeat(np.arange(len(types)), width), columns.pool])
    kinds = [types[index] for index in pool] if len(types) > 1 else None
    most = np.array([max(1, job.gpus, job.max_gpus if job.elastic else job.required_gpus) for job in jobs])
    found = goodput_table(functions, nodes, gpus, kinds, most)
    unmeasured = np.array([function is None for function in functions])
    on_one = found[:, : len(within)][:, within == 1]
    slowest = np.where(on_one > 0, on_one, np.inf).min(axis=1)
    unit = np.where(unmeasured | ~np.isfinite(slowest), 1.0, slowest)
    speedup = np.where(unmeasured[:, None], gpus, found) / unit[:, None]
    shapes = zip(columns.hosts.tolist(), columns.size.tolist(), columns.pool.tolist(), strict=True)
    known = on_one[(on_one > 0).all(axis=1)]
    ratios = known / known.min(axis=1, keepdims=True) if len(known) else np.ones((1, len(types)))
    return Goodputs(
        functions,
        unit,
        one_host=speedup[:, : len(within)].reshape(len(jobs), len(types), -1),
        packed=speedup[:, len(within) :],
        column={shape: at for at, shape in enumerate(shapes)},
        worth=ratios.mean(axis=0),
        types=types,
    )


def goodput_of(job: JobView, objective: Objective | None) -> GoodputFunction | None:
    """What the job is judged by: its goodput, or without efficiency its throughput alone."""
    efficient = objective is None or objective.uses_efficiency_for(job.metric)
    return job.goodput if efficient or not isinstance(job.goodput, Goodput) else job.goodput.without_efficiency()


def _let_stay(options: Options, hosts: Sequence[HostView], pools: _Pools, keeping: Set[str]) -> None:
    """Fills the last column for the jobs that may keep what they hold, and takes from `capacity` what those hold that
    are not to be changed: it is not there for others, whichever types it is of."""
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
        here = options.goodputs.speedup(row, len(job.allocation), job.gpus, pool)
        options.speedup[row, -1] = max(here, LEAST_SPEEDUP)
