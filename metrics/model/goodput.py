"""Goodput: training progress a second, throughput x statistical efficiency (Pollux, OSDI 2021, eq. 6), at the batch
size that makes it best. NumPy only, and Python 3.8 syntax: training scripts import this."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Mapping, Sequence

import numpy as np

from schedulearn.metrics.model.noise_scale import efficiency
from schedulearn.metrics.model.residuals import Residuals
from schedulearn.metrics.model.step_time import SMALLEST, StepTimeModel

if TYPE_CHECKING:
    from typing import Protocol

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

    class GoodputFunction(Protocol):
        """The best goodput of one job, over its batch sizes, for each of a number of allocations."""

        def __call__(self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None) -> Floats:
            """`num_nodes` and `num_gpus`: arrays of equal shape. Returns samples a second, of the same shape."""
            ...


_COARSE, _FINE = 12, 9  # batch sizes that are looked at between the smallest and the largest, then around the best
_COARSE_GRID, _FINE_GRID = np.linspace(0.0, 1.0, _COARSE), np.linspace(-1.0, 1.0, _FINE)
_AT_ONCE = 48  # jobs whose tables are made together: with more, an array is more than a core keeps near
_MOST_ROWS = 4  # of tables that each job's goodput keeps
KEEP_FACTOR = 1.05  # the batch is changed only for more than so much
SAFE_EFFICIENCY = 0.9  # of a batch that a live job may grow to: its epochs become longer by no more than a ninth


@dataclass(frozen=True)
class BatchBounds:
    """Which batches a job allows. Raises ValueError for bounds that hold none."""

    init_batch: int
    """M0: the batch that the user tuned the learning rate for; also the smallest one."""
    max_batch: int
    min_local: int = 1
    max_local: int | None = None
    """Samples that fit into a GPU's memory in one pass; None: all of them."""
    accumulate: bool = True
    """Whether a batch larger than fits may be made of several passes."""
    alone_passes: int = 1
    """Passes that a batch above M0 takes on a single GPU at least: AdaptDL measures the noise between two."""

    def __post_init__(self) -> None:
        largest_local = self.max_local if self.max_local is not None else self.max_batch
        if not 1 <= self.init_batch <= self.max_batch:
            raise ValueError(f"init_batch {self.init_batch} must be 1 to max_batch {self.max_batch}")
        if not 1 <= self.min_local <= largest_local:
            raise ValueError(f"min_local {self.min_local} must be 1 to max_local {largest_local}")


@dataclass(frozen=True)
class BatchChoice:
    """Arrays of one shape: what each of a number of allocations would best do."""

    goodput: Floats
    """Samples a second, worth as much as samples at M0; 0 where no batch is allowed."""
    atomic_batch: npt.NDArray[np.int64]
    """m: samples a replica in one pass; 0 where no batch is allowed."""
    accumulation: npt.NDArray[np.int64]
    """a: passes before the one that synchronises."""
    throughput: Floats
    """Samples a second."""


@dataclass(frozen=True)
class Goodput:
    """The goodput of one job on one type of GPU, or on several.

    `models`: GPU type -> its step-time model; at least one. A type that was not profiled is taken to behave like the
    first one, times `type_speed[type] / type_speed[first]`: the ratio of what one GPU of each does in other jobs (Sia,
    SOSP 2023, section 3.3). Unknown there too: like the first.

    `use_efficiency=False` leaves efficiency out: goodput is then throughput (the `speed` metric of Aptanagi, 2021).
    """

    models: Mapping[str, StepTimeModel]
    phi: float
    """Gradient noise scale, samples."""
    bounds: BatchBounds
    type_speed: Mapping[str, float] = field(default_factory=dict)
    use_efficiency: bool = True
    min_efficiency: float = 0.0
    """No batch is chosen at which a sample is worth less than so much of one at M0, unless the GPUs need it."""
    residuals: Mapping[str, Residuals] = field(default_factory=dict)
    """GPU type -> by what sizes that were measured deviate from `models`. They change no choice of a batch."""
    _rows: dict[object, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Rows of tables that were asked for before: a job's goodput changes less often than decisions are made."""

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("goodput needs the step-time model of at least one GPU type")
        efficiency(self.phi, self.bounds.init_batch, 1.0)  # checks phi

    def __call__(self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None) -> Floats:
        """Best goodput of each allocation, samples a second; 0 for no GPUs."""
        return self.best(num_nodes, num_gpus, gpu_type).goodput

    def at(
        self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, atomic_batch: npt.ArrayLike,
        accumulation: npt.ArrayLike = 0, gpu_type: str | None = None,
    ) -> Floats:  # fmt: skip
        """Goodput at given batches; shapes that broadcast. Batches above `max_batch` count like any other."""
        model, factor = self._model(gpu_type)
        samples = np.asarray(num_gpus) * np.asarray(atomic_batch) * (np.asarray(accumulation) + 1)
        speed = factor * model.throughput(num_nodes, num_gpus, atomic_batch, accumulation)
        if (measured := self._residuals(gpu_type)) is not None:
            speed = speed * measured.factor(np.asarray(num_nodes), np.asarray(num_gpus))
        return np.asarray(speed * self._efficiency(samples))

    def best(self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None) -> BatchChoice:
        """The best batch of each allocation between max(M0, K m_min) and M_max, with as little accumulation as lets
        it fit. Arrays of equal shape."""
        nodes, gpus = np.broadcast_arrays(np.asarray(num_nodes), np.asarray(num_gpus))
        flat_nodes, flat_gpus = nodes.reshape(-1), gpus.reshape(-1)
        goodput, atomic, steps, speed = _Search([self], flat_nodes, flat_gpus, gpu_type).run()
        if (measured := self._residuals(gpu_type)) is not None:
            factor = measured.factor(flat_nodes, flat_gpus)
            goodput, speed = goodput * factor, speed * factor
        return BatchChoice(*(array[0].reshape(gpus.shape) for array in (goodput, atomic, steps, speed)))

    def keep_or_change(
        self, num_nodes: int, num_gpus: int, atomic_batch: int, accumulation: int, gpu_type: str | None = None,
        keep_factor: float = KEEP_FACTOR,
    ) -> tuple[int, int]:  # fmt: skip
        """(atomic batch, accumulation) to go on with: the present one unless the best is better by `keep_factor`."""
        phi, now = np.array([self.phi]), (atomic_batch, accumulation)
        return self.keep_or_change_at(phi, num_nodes, num_gpus, *now, gpu_type, keep_factor)[0]

    def keep_or_change_at(
        self, phis: Floats, num_nodes: int, num_gpus: int, atomic_batch: int, accumulation: int,
        gpu_type: str | None = None, keep_factor: float = KEEP_FACTOR,
    ) -> list[tuple[int, int]]:  # fmt: skip
        """The same for each of several noise scales, in little more time than for one."""
        noise = np.asarray(phis, dtype=float)
        search = _Search([self], np.array([num_nodes]), np.array([num_gpus]), gpu_type, noise)
        goodput, atomic, steps, _ = (found[:, 0] for found in search.run())
        now = np.zeros_like(goodput)
        if atomic_batch >= 1:
            model, factor = self._model(gpu_type)
            samples = num_gpus * atomic_batch * (accumulation + 1)
            speed = factor * model.throughput(num_nodes, num_gpus, atomic_batch, accumulation)
            now = speed * (efficiency(noise, self.bounds.init_batch, samples) if self.use_efficiency else 1.0)
        changes = (goodput > keep_factor * now).tolist()
        found = zip(changes, atomic.tolist(), steps.tolist())
        return [(local, more) if change else (atomic_batch, accumulation) for change, local, more in found]

    def _remember(self, asked: object, row: Floats) -> None:
        for oldest in list(self._rows)[: 1 - _MOST_ROWS]:  # decisions and forecasts are made in several threads
            self._rows.pop(oldest, None)
        self._rows[asked] = row.copy()

    def _model(self, gpu_type: str | None) -> tuple[StepTimeModel, float]:
        """The model for a type, and by what its throughput is to be multiplied."""
        if gpu_type is None or gpu_type in self.models:
            return self.models[gpu_type if gpu_type is not None else next(iter(self.models))], 1.0
        first = next(iter(self.models))
        known, wanted = self.type_speed.get(first), self.type_speed.get(gpu_type)
        return self.models[first], wanted / known if known and wanted else 1.0

    def _residuals(self, gpu_type: str | None) -> Residuals | None:
        """Of the model that `_model` gives for a type."""
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
) -> Floats:
    """The best goodput of many jobs at once: shape (len(functions), n) for n allocations, 0 in the rows of None.

    `gpu_types`: of each allocation; None: whatever each job was profiled on. Functions of this module are looked at
    together, and types that a job was not profiled on are scaled from the one that it was: a fraction of the time of
    calling each.
    """
    nodes, gpus = np.asarray(num_nodes, dtype=np.int64), np.asarray(num_gpus, dtype=np.int64)
    kinds = tuple(gpu_types) if gpu_types is not None else (None,) * len(gpus)
    table = np.zeros((len(functions), len(gpus)))
    asked = (nodes.tobytes(), gpus.tobytes(), kinds)
    unknown = []
    for row, function in enumerate(functions):
        if isinstance(function, Goodput):
            found = function._rows.get(asked)
            if found is None:
                unknown.append((row, function))
            else:
                table[row] = found
        elif function is not None:
            for kind in dict.fromkeys(kinds):
                mine = np.array([other == kind for other in kinds])
                table[row, mine] = function(nodes[mine], gpus[mine], kind)
    for begin in range(0, len(unknown), _AT_ONCE):
        some = unknown[begin : begin + _AT_ONCE]
        rows = _table([function for _, function in some], nodes, gpus, kinds)
        for (row, function), values in zip(some, rows):
            table[row] = values
            function._remember(asked, values)
    return table


def _table(
    jobs: Sequence[Goodput], nodes: npt.NDArray[np.int64], gpus: npt.NDArray[np.int64], kinds: Sequence[str | None]
) -> Floats:
    shapes, column = _distinct(nodes.tobytes(), gpus.tobytes())
    base = _goodputs(jobs, shapes[0], shapes[1], None)[:, column]
    table = np.empty_like(base)
    for kind in dict.fromkeys(kinds):
        mine = np.array([other == kind for other in kinds])
        factor = np.array([job._model(kind)[1] for job in jobs])
        table[:, mine] = base[:, mine] * factor[:, None]
        known = [i for i, job in enumerate(jobs) if kind in job.models and kind != next(iter(job.models))]
        if known:
            table[np.ix_(np.array(known), mine)] = _goodputs([jobs[i] for i in known], nodes[mine], gpus[mine], kind)
    return table


def _goodputs(
    jobs: Sequence[Goodput], nodes: npt.NDArray[np.int64], gpus: npt.NDArray[np.int64], kind: str | None
) -> Floats:
    found = _Search(jobs, nodes, gpus, kind).run()[0]
    for row, job in zip(found, jobs):
        if (measured := job._residuals(kind)) is not None:
            row *= measured.factor(nodes, gpus)
    return found


@lru_cache(maxsize=100)
def _distinct(nodes: bytes, gpus: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The allocations without repetition (2, any), and which of these each is. Decisions ask for the same ones."""
    both = np.stack([np.frombuffer(each, dtype=np.int64) for each in (nodes, gpus)])
    shapes, column = np.unique(both, axis=1, return_inverse=True)
    return shapes, column.reshape(-1)


class _Search:
    """The best batches of J jobs on C allocations: on a coarse geometric grid first, then around the best of it, each
    with as little accumulation as lets it fit. Arrays have the axes (job, allocation, candidate)."""

    def __init__(
        self, jobs: Sequence[Goodput], nodes: npt.NDArray[np.int64], gpus: npt.NDArray[np.int64], gpu_type: str | None,
        phis: Floats | None = None,
    ) -> None:  # fmt: skip
        """`phis`: of one job, the noise scales at which to look; the first axis is then theirs."""
        params = np.array([_parameters(job, gpu_type) for job in jobs]).T[:, :, None, None]
        self.alpha, self.beta, alpha_l, beta_l, alpha_n, beta_n, self.gamma, self.factor = params[:8]
        self.phi, self.use_efficiency, self.init, self.min_local, self.max_local = params[8:13]
        self.may_accumulate, self.alone_steps, max_batch, min_efficiency = params[13:]
        if phis is not None:
            assert len(jobs) == 1
            self.phi = phis[:, None, None]
        self.some = np.asarray(gpus >= 1).reshape(1, -1)
        self.k = np.maximum(np.asarray(gpus, dtype=float), 1).reshape(1, -1, 1)
        further = np.maximum(self.k - 2, 0)
        one_node = np.asarray(nodes).reshape(1, -1, 1) <= 1
        self.sync = np.where(one_node, alpha_l + beta_l * further, alpha_n + beta_n * further) * (self.k > 1)
        self.low = np.maximum(self.init, self.k * self.min_local)
        # What so many GPUs can't do without is allowed, however little a sample is worth then.
        least = np.where(min_efficiency > 0, min_efficiency, 1.0)
        efficient = np.where(min_efficiency > 0, (self.phi + self.init) / least - self.phi, np.inf)
        self.most = np.minimum(max_batch, np.maximum(self.low, efficient))
        self.high = np.maximum(self.low, self.most)

    def run(self) -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
        """(goodput, atomic batch, accumulation, throughput), each of shape (J, C)."""
        grid = self.low * (self.high / self.low) ** _COARSE_GRID
        # Beyond what fits in one pass, batches that fill every pass are local optima.
        full = self.k * np.where(np.isfinite(self.max_local), self.max_local, self.high)
        passes = np.rint(grid / full)
        filled = np.minimum(np.maximum(passes * full, self.low), self.high)
        best = self._best_of(np.where(passes >= 1, filled, grid))
        step = (self.high / self.low) ** (1.0 / (_COARSE - 1))
        centre = self.k * best[1][..., None] * (best[2][..., None] + 1)
        fine = centre * step**_FINE_GRID
        if np.any(full < self.high):
            near = np.concatenate([np.floor(fine[..., ::3] / full), np.ceil(centre / full)], axis=2)
            fine = np.concatenate([fine, near * full], axis=2)
        fine = np.minimum(np.maximum(fine, self.low), self.high)
        again = self._best_of(fine)
        better = again[0] > best[0]
        goodput, atomic, steps, speed = (np.where(better, new, old) for new, old in zip(again, best))
        some = (goodput > 0) & self.some
        return (
            np.where(some, goodput, 0.0),
            np.where(some, atomic, 0).astype(np.int64),
            np.where(some, steps, 0).astype(np.int64),
            np.where(some, speed, 0.0),
        )

    def _best_of(self, batch: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        k = self.k
        local = batch / k
        # Ours gives a single replica no accumulation for its own sake: it measures noise from successive gradients.
        steps = np.maximum(np.ceil(local / self.max_local - 1e-9) - 1, 0)
        steps = np.where((k == 1) & (batch > self.init + 1e-9), np.maximum(steps, self.alone_steps), steps)
        steps = steps * self.may_accumulate
        atomic = np.minimum(np.maximum(np.ceil(local / (steps + 1) - 1e-9), self.min_local), self.max_local)
        passes = k * (steps + 1)
        # Rounding up may pass the limit by a sample a replica; at the smallest batch it may not be helped.
        atomic = np.where((passes * atomic > self.most) & (atomic > self.min_local), atomic - 1, atomic)
        samples = passes * atomic
        allowed = (samples <= self.most) & (samples + passes > np.minimum(self.low, self.most)) & (atomic >= 1)
        grad = np.maximum(self.alpha + self.beta * atomic, SMALLEST)
        # (grad^gamma + sync^gamma)^(1/gamma) by the larger of the two, so that small times raised high don't vanish
        larger = np.maximum(grad, self.sync)
        smaller = np.minimum(grad, self.sync)
        both = larger * (1.0 + (smaller / larger) ** self.gamma) ** (1.0 / self.gamma)
        speed = self.factor * samples / (steps * grad + both)
        gain = np.where(self.use_efficiency > 0, (self.phi + self.init) / (self.phi + samples), 1.0)
        value = np.where(allowed, speed * gain, 0.0)
        pick = np.argmax(value, axis=2)
        where = np.arange(pick.size).reshape(pick.shape) * value.shape[2] + pick
        atomic, steps, speed = (np.broadcast_to(found, value.shape).take(where) for found in (atomic, steps, speed))
        return value.take(where), atomic, steps, speed


def _parameters(job: Goodput, gpu_type: str | None) -> tuple[float, ...]:
    # dataclasses.astuple copies deeply, which takes most of the time of a table
    model, factor = job._model(gpu_type)
    bounds = job.bounds
    return (
        model.alpha_grad, model.beta_grad, model.alpha_local, model.beta_local, model.alpha_node, model.beta_node,
        model.gamma, factor, job.phi, job.use_efficiency, bounds.init_batch, bounds.min_local,
        np.inf if bounds.max_local is None else bounds.max_local, bounds.accumulate, bounds.alone_passes - 1,
        bounds.max_batch, job.min_efficiency,
    )  # fmt: skip


def speedup_table(function: GoodputFunction, most: int, gpus_per_node: int) -> dict[int, float]:
    """k -> goodput(k) / goodput(1) for 1 to `most` GPUs packed onto hosts of `gpus_per_node`."""
    k = np.arange(1, most + 1)
    values = function(-(-k // gpus_per_node), k)
    return {int(n): float(v / values[0]) for n, v in zip(k, values)}
