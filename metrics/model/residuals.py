"""Residuals of the step-time fit, by number of GPUs.

Seven parameters can't follow every network: over all sizes that Pollux's authors measured, the fit is off by 11 to
18 %. A decision between sizes rests on just the difference between them. Where a size was measured, the measurement
therefore counts, and the fit shows how it changes with the batch. Between two sizes the deviation is interpolated.
NumPy only, and Python 3.8 syntax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Sequence

import numpy as np

from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, outliers

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_MAX = 1.5  # maximum factor of a deviation: a measurement that is further off has another cause
_MAX_GPUS = 4096


@dataclass(frozen=True, eq=False)
class Residuals:
    """Measured throughput over the fitted one. Beyond the last number of GPUs, the last value counts."""

    one_host: Floats
    """(n,): on 1 to n GPUs of one host."""
    several_hosts: Floats
    """(n,): on 1 to n GPUs, packed on several hosts."""

    def factor(self, num_nodes: npt.NDArray[np.int64], num_gpus: npt.NDArray[np.int64]) -> Floats:
        """Return the factor on the fitted throughput of each allocation; arrays of one shape."""
        return factors([self], num_nodes.reshape(-1), num_gpus.reshape(-1)).reshape(num_gpus.shape)


def factors(measured: Sequence[Residuals], num_nodes: npt.NDArray[np.int64], num_gpus: npt.NDArray[np.int64]) -> Floats:
    """(R, n): `Residuals.factor` of R jobs for n allocations, in little more time than for one."""
    at, alone = np.maximum(num_gpus, 1) - 1, num_nodes <= 1
    found = np.empty((len(measured), len(at)))
    found[:, alone] = _looked_up([each.one_host for each in measured], at[alone])
    found[:, ~alone] = _looked_up([each.several_hosts for each in measured], at[~alone])
    return found


def _looked_up(tables: Sequence[Floats], at: npt.NDArray[np.int64]) -> Floats:
    """Return the values of R tables at n places, (R, n). Beyond the end of a table, its last value counts."""
    lengths = np.array([len(table) for table in tables])
    first = np.cumsum(lengths) - lengths
    return np.asarray(np.concatenate(tables)[first[:, None] + np.minimum(at, lengths[:, None] - 1)])


def residuals_of(model: StepTimeModel, times: StepTimes) -> Residuals:
    """Return the residuals of `times`, to which `model` was fitted.

    Measurements that the fit left out are left out here too. If as many GPUs were on different numbers of hosts, those
    on the fewest count, since jobs are placed that way.
    """
    nodes, gpus = times.num_nodes.astype(np.int64), times.num_replicas.astype(np.int64)
    most = np.log(_MAX)
    off = np.clip(np.log(model.iter_time(nodes, gpus, times.atomic_batch) / times.iter_time), -most, most)
    used = ~outliers(times, model) & (gpus <= _MAX_GPUS)
    local, remote = used & (nodes == 1), used & (nodes > 1)
    alone = local & (gpus == 1)
    first = float(off[alone].mean()) if alone.any() else 0.0
    one_host = _table(_by_size(gpus, off, local & ~alone))
    one_host[0] = np.exp(first)
    packed = {size: nodes[remote & (gpus == size)].min() for size in np.unique(gpus[remote])}
    remote &= np.array([packed.get(k) == n for k, n in zip(gpus, nodes)], dtype=bool)
    return Residuals(one_host, _table(_by_size(gpus, off, remote)))


def _by_size(gpus: npt.NDArray[np.int64], off: Floats, rows: npt.NDArray[np.bool_]) -> dict[int, float]:
    return {int(size): float(off[rows & (gpus == size)].mean()) for size in np.unique(gpus[rows])}


def _table(by_size: dict[int, float]) -> Floats:
    """Return the factors of 1 to n GPUs, (n,), n at least 2. Between two sizes they are interpolated by their ratio."""
    if not by_size:
        return np.ones(2)
    sizes = sorted(by_size)
    counts = np.arange(1, max(2, sizes[-1]) + 1)
    return np.exp(np.interp(np.log(counts), np.log(sizes), [by_size[size] for size in sizes]))
