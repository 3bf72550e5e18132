"""Speedup of each job over one GPU, for every possible placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from schedulearn.metrics.model.goodput import Goodput, goodput_table
from schedulearn.scheduler.core.model import JobView
from schedulearn.scheduler.policies.goodput.host_kinds import type_of
from schedulearn.scheduler.policies.goodput.knapsack import Floats, Ints
from schedulearn.scheduler.policies.goodput.objective import GoodputObjective

if TYPE_CHECKING:
    from schedulearn.metrics.model.goodput import GoodputFunction


@dataclass(frozen=True, eq=False)
class CandidateSizes:
    """Sizes that are considered, the same C for all jobs."""

    size: Ints
    pool: Ints
    """(C,): index of the type."""
    types: tuple[str, ...]
    width: int
    """For each type, 1 to `width` GPUs of one host are considered as well."""
    nodes: Ints
    """(P x width + C,): number of hosts, as few as possible; first come those `width` sizes of each type."""
    gpus: Ints
    kinds: tuple[str, ...] | None
    """Their types; None: there is only one type."""
    column: dict[tuple[int, int, int], int]
    """(hosts, GPUs, index of their type) -> index among the C."""


@lru_cache(maxsize=100)
def columns_of(
    types: tuple[str, ...], widths: tuple[int, ...], limits: tuple[int, ...], least: tuple[int, ...], fills: bool
) -> CandidateSizes:
    """Return the sizes for these GPU types. The results are cached, since decisions repeat the same calls.

    `widths`, `limits`: for each type, the GPUs of its largest host, and the maximum that a job may have. `least`: sizes
    that must be among them. `fills`: whether jobs may take any number of GPUs of one host.
    """
    blocks = [_sizes(width, limit, least) for width, limit in zip(widths, limits, strict=True)]
    size = np.array([size for block in blocks for size in block], dtype=np.int64)
    pool = np.repeat(np.arange(len(types)), [len(block) for block in blocks])
    hosts = -(-size // np.array(widths)[pool])
    width = max(widths) if fills else 1
    within = np.tile(np.arange(1, width + 1), len(types))
    pools = np.concatenate([np.repeat(np.arange(len(types)), width), pool])
    names = [type_of(kind) for kind in types]
    shapes = zip(hosts.tolist(), size.tolist(), pool.tolist(), strict=True)
    return CandidateSizes(
        size,
        pool,
        types,
        width,
        nodes=np.concatenate([np.ones_like(within), hosts]),
        gpus=np.concatenate([within, size]),
        kinds=tuple(names[index] for index in pools) if len(set(names)) > 1 else None,
        column={shape: at for at, shape in enumerate(shapes)},
    )


def _sizes(width: int, most: int, least: Sequence[int]) -> list[int]:
    """Return useful sizes on hosts of `width` GPUs, `most` in all: finer where they are small.

    The possible sizes of `least` are among them.
    """
    sizes = {size for size in least if 1 <= size <= most}
    k = 1
    while k < width:
        sizes.add(k)
        k *= 2
    hosts, step = 1, 1
    while hosts * width <= most:
        sizes.add(hosts * width)
        step = 1 if hosts < 8 else 2 if hosts < 16 else max(4, hosts // 5)
        hosts += step
    return sorted(sizes)


@dataclass(frozen=True)
class Speedups:
    """Speedups S over one GPU of the slowest type that a job can use.

    A job without measurements scales perfectly.
    """

    columns: CandidateSizes
    functions: list[GoodputFunction | None]
    unit: Floats
    """(J,): goodput of one GPU, samples per second."""
    one_host: Floats
    """(J, P, width): on 1, 2, ... GPUs of one host of each type."""
    packed: Floats
    """(J, C): on `columns`."""
    worth: Floats
    """(P,): speed of one GPU of each type relative to the slowest type, on average over measured jobs."""

    def at(self, row: int, hosts: int, gpus: int, pool: int) -> float:
        """Return the speedup of a job on exactly these hosts and GPUs, even if fewer hosts would do."""
        if hosts == 1 and gpus <= self.columns.width:
            return float(self.one_host[row, pool, gpus - 1])
        if (column := self.columns.column.get((hosts, gpus, pool))) is not None:
            return float(self.packed[row, column])
        if (function := self.functions[row]) is None:
            return gpus
        gpu_type = type_of(self.columns.types[pool]) if self.columns.kinds else None
        here = function(np.array([hosts]), np.array([gpus]), gpu_type)
        return float(here[0]) / float(self.unit[row])


def measure(jobs: Sequence[JobView], columns: CandidateSizes, objective: GoodputObjective | None) -> Speedups:
    functions = [goodput_of(job, objective) for job in jobs]
    most = np.array([max(1, job.gpus, job.max_gpus if job.elastic else job.required_gpus) for job in jobs])
    found = goodput_table(functions, columns.nodes, columns.gpus, columns.kinds, most)
    first = len(columns.types) * columns.width
    on_one = found[:, : first : columns.width]
    slowest = np.where(on_one > 0, on_one, np.inf).min(axis=1)
    unmeasured = np.array([function is None for function in functions])
    unit = np.where(unmeasured | ~np.isfinite(slowest), 1.0, slowest)
    speedup = np.where(unmeasured[:, None], columns.gpus, found) / unit[:, None]
    one_host = speedup[:, :first].reshape(len(jobs), len(columns.types), -1)
    known = on_one[(on_one > 0).all(axis=1)]
    ratios = known / known.min(axis=1, keepdims=True) if len(known) else np.ones((1, len(columns.types)))
    return Speedups(columns, functions, unit, one_host, speedup[:, first:], ratios.mean(axis=0))


def goodput_of(job: JobView, objective: GoodputObjective | None) -> GoodputFunction | None:
    """Return what the job is judged by: its goodput, or without efficiency its throughput alone."""
    efficient = objective is None or objective.uses_efficiency_for(job.metric)
    return job.goodput if efficient or not isinstance(job.goodput, Goodput) else job.goodput.without_efficiency()
