"""Goodput: training progress per second, at the best batch size.

It is throughput x statistical efficiency (Pollux, OSDI 2021, eq. 6). NumPy only, and Python 3.8 syntax: training
scripts import this.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Mapping, NamedTuple, Sequence

import numpy as np

from schedulearn.metrics.model.batch_search import PHI, Parameters, search
from schedulearn.metrics.model.noise_scale import efficiency
from schedulearn.metrics.model.residuals import Residuals, factors
from schedulearn.metrics.model.step_time import StepTimeModel

if TYPE_CHECKING:
    from typing import Protocol

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

    class GoodputFunction(Protocol):
        """Best goodput of one job over its batch sizes, for each of several allocations."""

        def __call__(self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None) -> Floats:
            """`num_nodes` and `num_gpus`: arrays of equal shape. Returns samples per second, of the same shape."""
            ...


_MAX_ROWS = 4  # maximum rows of tables that each job's goodput caches
KEEP_FACTOR = 1.05  # the batch is changed only for a goodput that is higher by more than this factor
SAFE_EFFICIENCY = 0.5  # minimum of batches that a live job grows to: epochs get at most twice as long (docs/adr/0076)


@dataclass(frozen=True)
class BatchBounds:
    """Batches that a job allows. Raises ValueError for bounds that hold none."""

    init_batch: int
    """M0: the batch that the user tuned the learning rate for; also the smallest one."""
    max_batch: int
    min_local: int = 1
    max_local: int | None = None
    """Samples that fit into a GPU's memory in one micro-step; None: all of them."""
    accumulate: bool = True
    """Whether a batch larger than fits may be made of several micro-steps."""
    alone_passes: int = 1
    """Minimum micro-steps of a batch above M0 on a single GPU: AdaptDL measures the noise between two."""

    def __post_init__(self) -> None:
        largest_local = self.max_local if self.max_local is not None else self.max_batch
        if not 1 <= self.init_batch <= self.max_batch:
            raise ValueError(f"init_batch {self.init_batch} must be 1 to max_batch {self.max_batch}")
        if not 1 <= self.min_local <= largest_local:
            raise ValueError(f"min_local {self.min_local} must be 1 to max_local {largest_local}")

    def split(self, batch: int, workers: int) -> Split:
        """Split `batch` samples over `workers`, in as few micro-steps as they fit in, as the worker SDK does.

        All of it is trained, whether it divides or not, unless these workers can't do as few or as many.
        """
        local = max(1, self.min_local, -(-batch // workers))
        passes = 1
        if self.accumulate:
            passes = -(-local // self.max_local) if self.max_local is not None else 1
            if workers == 1 and batch > self.init_batch:
                passes = max(passes, self.alone_passes)
        atomic = min(-(-local // passes), self.max_local or local)
        least, most = workers * max(1, self.min_local), workers * atomic * passes
        return Split(min(max(batch, least), most), atomic, passes - 1)


class Split(NamedTuple):
    """Split of a step into micro-steps of workers."""

    batch: int
    """Samples over all workers and micro-steps."""
    atomic: int
    """Samples of one micro-step of the worker that has the most: all others wait for it."""
    accumulation: int
    """Micro-steps before the one that synchronises."""


@dataclass(frozen=True)
class BatchChoice:
    """Best choice for each of several allocations; arrays of one shape."""

    goodput: Floats
    """Samples per second, worth as much as samples at M0; 0 where no batch is allowed."""
    batch: npt.NDArray[np.int64]
    """M: samples over all replicas; 0 where no batch is allowed."""
    atomic_batch: npt.NDArray[np.int64]
    """m: samples in one micro-step of the replica that has the most; 0 where no batch is allowed."""
    accumulation: npt.NDArray[np.int64]
    """a: micro-steps before the one that synchronises."""
    throughput: Floats
    """Samples per second."""


@dataclass(frozen=True)
class Goodput:
    """The goodput of one job on one type of GPU, or on several.

    `models`: GPU type -> its step-time model; at least one. A type that was not profiled is taken to behave like the
    first one, times `type_speed[type] / type_speed[first]`: the ratio of the speeds of one GPU of each in other jobs
    (Sia, SOSP 2023, section 3.3). If that is unknown too, it behaves like the first one.

    `use_efficiency=False` leaves efficiency out: goodput is then throughput (the `speed` metric of Aptanagi, 2021).
    """

    models: Mapping[str, StepTimeModel]
    phi: float
    """Gradient noise scale, samples."""
    bounds: BatchBounds
    type_speed: Mapping[str, float] = field(default_factory=dict)
    use_efficiency: bool = True
    min_efficiency: float = 0.0
    """Minimum worth of a sample at a chosen batch, relative to one at M0, unless the GPUs need a larger batch."""
    residuals: Mapping[str, Residuals] = field(default_factory=dict)
    """GPU type -> deviation of measured sizes from `models`. It changes no choice of a batch."""
    _rows: dict[object, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cached rows of tables: a job's goodput changes less often than decisions are made."""

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("goodput needs the step-time model of at least one GPU type")
        efficiency(self.phi, self.bounds.init_batch, 1.0)  # checks phi

    def __call__(self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None) -> Floats:
        """Best goodput of each allocation, samples per second; 0 for no GPUs."""
        return self.best(num_nodes, num_gpus, gpu_type).goodput

    def at(
        self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, batch: npt.ArrayLike, gpu_type: str | None = None
    ) -> Floats:
        """Goodput at given batches, samples over all GPUs; shapes that broadcast. Batches above `max_batch` count like
        any other."""
        nodes, gpus, batches = np.broadcast_arrays(num_nodes, num_gpus, batch)
        splits = [self.bounds.split(int(b), int(k)) for b, k in zip(batches.reshape(-1), gpus.reshape(-1))]
        samples, atomic, steps = (np.array(each).reshape(batches.shape) for each in zip(*splits))
        model, factor = self._model(gpu_type)
        speed = factor * samples / model.step_time(nodes, gpus, atomic, steps)
        if (measured := self._residuals(gpu_type)) is not None:
            speed = speed * measured.factor(nodes, gpus)
        return np.asarray(speed * self._efficiency(samples))

    def best(self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None) -> BatchChoice:
        """Return the best batch of each allocation between max(M0, K m_min) and M_max; arrays of equal shape.

        It has the minimum accumulation with which it fits.
        """
        nodes, gpus = np.broadcast_arrays(np.asarray(num_nodes), np.asarray(num_gpus))
        mine = np.zeros(gpus.size, dtype=np.int64)
        found = search([_parameters(self, gpu_type)], mine, nodes.reshape(-1), gpus.reshape(-1))
        goodput, batch, atomic, steps, throughput = (each.reshape(gpus.shape) for each in found)
        if (measured := self._residuals(gpu_type)) is not None:
            factor = measured.factor(nodes, gpus)
            goodput, throughput = goodput * factor, throughput * factor
        return BatchChoice(goodput, batch.astype(np.int64), atomic.astype(np.int64), steps.astype(np.int64), throughput)

    def keep_or_change_at(
        self, phis: Floats, num_nodes: int, num_gpus: int, batch: int, gpu_type: str | None = None,
        keep_factor: float = KEEP_FACTOR,
    ) -> list[int]:  # fmt: skip
        """Return the next batch for each noise scale, in little more time than for one.

        It is the present batch (0: none) unless the best is better by `keep_factor`."""
        noise = np.asarray(phis, dtype=float)
        jobs = np.tile(np.array(_parameters(self, gpu_type), dtype=float), (len(noise), 1))
        jobs[:, PHI] = noise
        here = (np.full(len(jobs), number) for number in (num_nodes, num_gpus))
        found = search(jobs, np.arange(len(jobs)), *here)
        now = np.zeros_like(found.goodput)
        if batch >= 1:
            model, factor = self._model(gpu_type)
            samples, atomic, steps = self.bounds.split(batch, num_gpus)
            speed = factor * samples / model.step_time(num_nodes, num_gpus, atomic, steps)
            now = speed * (efficiency(noise, self.bounds.init_batch, samples) if self.use_efficiency else 1.0)
        changes = (found.goodput > keep_factor * now).tolist()
        return [int(better) if change else batch for change, better in zip(changes, found.batch.tolist())]

    def _remember(self, asked: object, row: Floats) -> None:
        for oldest in list(self._rows)[: 1 - _MAX_ROWS]:  # decisions and forecasts are made in several threads
            self._rows.pop(oldest, None)
        self._rows[asked] = row.copy()

    def _model(self, gpu_type: str | None) -> tuple[StepTimeModel, float]:
        """Return the model for a type, and the factor on its throughput."""
        if gpu_type is None or gpu_type in self.models:
            return self.models[gpu_type if gpu_type is not None else next(iter(self.models))], 1.0
        first = next(iter(self.models))
        known, wanted = self.type_speed.get(first), self.type_speed.get(gpu_type)
        return self.models[first], wanted / known if known and wanted else 1.0

    def _residuals(self, gpu_type: str | None) -> Residuals | None:
        """Return the residuals of the model that `_model` returns for a type."""
        if not self.residuals:
            return None
        of = gpu_type if gpu_type is not None and gpu_type in self.models else next(iter(self.models))
        return self.residuals.get(of)

    def without_efficiency(self) -> Goodput:
        """The same job judged by its throughput alone."""
        return replace(self, use_efficiency=False)

    def _efficiency(self, batch: npt.NDArray[np.float64]) -> Floats:
        return efficiency(self.phi, self.bounds.init_batch, batch) if self.use_efficiency else np.ones_like(batch)


def goodput_table(
    functions: Sequence[GoodputFunction | None],
    num_nodes: npt.ArrayLike,
    num_gpus: npt.ArrayLike,
    gpu_types: Sequence[str | None] | None = None,
    most: npt.ArrayLike | None = None,
) -> Floats:
    """Return the best goodput of many jobs, (len(functions), n) for n allocations; 0 in the rows of None.

    `gpu_types`: type of each allocation; None: whatever each job was profiled on. `most`: maximum GPUs of each job;
    beyond it the table has 0. Functions of this module are evaluated together. Types that a job was not profiled on are
    scaled from the one that it was. This takes a fraction of the time of calling each function.
    """
    nodes, gpus = np.asarray(num_nodes, dtype=np.int64), np.asarray(num_gpus, dtype=np.int64)
    kinds = tuple(gpu_types) if gpu_types is not None else (None,) * len(gpus)
    asked = _asked(nodes.tobytes(), gpus.tobytes(), kinds)
    limits = np.full(len(functions), asked.sizes[-1] if len(gpus) else 0)
    if most is not None:
        limits = np.minimum(limits, np.asarray(most, dtype=np.int64))
    widths = np.searchsorted(asked.sizes, limits, side="right").tolist()  # in columns: many limits are the same there
    table = np.zeros((len(functions), len(gpus)))
    unknown: dict[tuple[int, int], list[int]] = {}  # jobs that share a goodput are evaluated once
    for row, (function, width) in enumerate(zip(functions, widths)):
        if isinstance(function, Goodput):
            found = function._rows.get((asked, width))
            if found is None:
                unknown.setdefault((id(function), width), []).append(row)
            else:
                table[row] = found
        elif function is not None:
            for kind, mine in asked.of_kind.items():
                table[row, mine] = function(nodes[mine], gpus[mine], kind)
            table[row, gpus > limits[row]] = 0.0
    if unknown:
        first = [rows[0] for rows in unknown.values()]
        jobs = [function for row in first if isinstance(function := functions[row], Goodput)]
        for rows, job, values in zip(unknown.values(), jobs, _table(jobs, limits[first], asked)):
            table[rows] = values
            job._remember((asked, widths[rows[0]]), values)
    return table


class _Asked:
    """Allocations of a table. Decisions use the same ones again and again."""

    def __init__(self, nodes: npt.NDArray[np.int64], gpus: npt.NDArray[np.int64], kinds: Sequence[str | None]) -> None:
        self.sizes = np.sort(gpus)
        self.of_kind = {kind: np.array([other == kind for other in kinds]) for kind in dict.fromkeys(kinds)}
        shapes, column = np.unique(np.stack([nodes, gpus]), axis=1, return_inverse=True)
        self.shapes, self.column = shapes, column.reshape(-1)
        """Distinct allocations (2, any), and the index of each allocation in these."""
        self.shapes_of = {
            kind: np.unique(self.column[mine], return_inverse=True) for kind, mine in self.of_kind.items()
        }
        """For each type, the indices of its `shapes`, and the index of each of its allocations in these."""


@lru_cache(maxsize=100)
def _asked(nodes: bytes, gpus: bytes, kinds: tuple[str | None, ...]) -> _Asked:
    return _Asked(np.frombuffer(nodes, dtype=np.int64), np.frombuffer(gpus, dtype=np.int64), kinds)


def _table(jobs: Sequence[Goodput], limits: npt.NDArray[np.int64], asked: _Asked) -> Floats:
    base = _values(jobs, limits, asked.shapes[0], asked.shapes[1], None)
    table = np.empty((len(jobs), len(asked.column)))
    for kind, mine in asked.of_kind.items():
        factor = np.array([1.0 if kind is None or kind in job.models else job._model(kind)[1] for job in jobs])
        table[:, mine] = base[:, asked.column[mine]] * factor[:, None]
        known = [i for i, job in enumerate(jobs) if kind in job.models and kind != next(iter(job.models))]
        if known:
            shapes, column = asked.shapes_of[kind]
            nodes, gpus = asked.shapes[:, shapes]
            better = _values([jobs[i] for i in known], limits[known], nodes, gpus, kind)
            table[np.ix_(np.array(known), mine)] = better[:, column]
    return table


def _values(
    jobs: Sequence[Goodput], limits: npt.NDArray[np.int64], nodes: npt.NDArray[np.int64],
    gpus: npt.NDArray[np.int64], kind: str | None,
) -> Floats:  # fmt: skip
    values = np.zeros((len(jobs), len(gpus)))
    job, at = np.nonzero(gpus <= limits[:, None])
    values[job, at] = search([_parameters(each, kind) for each in jobs], job, nodes[at], gpus[at]).goodput
    measured = [(row, found) for row, each in enumerate(jobs) if (found := each._residuals(kind)) is not None]
    if measured:
        values[[row for row, _ in measured]] *= factors([found for _, found in measured], nodes, gpus)
    return values


def _parameters(job: Goodput, gpu_type: str | None) -> Parameters:
    # dataclasses.astuple copies deeply, which takes most of the time of a table
    model, factor = job._model(gpu_type)
    bounds = job.bounds
    return Parameters(
        model.alpha_grad, model.beta_grad, model.alpha_local, model.beta_local, model.alpha_node, model.beta_node,
        model.gamma, factor, job.phi, job.use_efficiency, bounds.init_batch, bounds.min_local,
        np.inf if bounds.max_local is None else bounds.max_local, bounds.accumulate, bounds.alone_passes - 1,
        bounds.max_batch, job.min_efficiency,
    )  # fmt: skip
