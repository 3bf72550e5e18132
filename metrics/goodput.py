"""Goodput: training progress a second, throughput x statistical efficiency (Pollux, OSDI 2021, eq. 6), at the batch
size that makes it best. NumPy only, and Python 3.8 syntax: training scripts import this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Mapping

import numpy as np

from schedulearn.metrics.noise_scale import efficiency
from schedulearn.metrics.throughput import StepTimeModel

if TYPE_CHECKING:
    from typing import Protocol

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

    class GoodputFunction(Protocol):
        """The best goodput of one job, over its batch sizes, for each of a number of allocations."""

        def __call__(self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None) -> Floats:
            """`num_nodes` and `num_gpus`: arrays of equal shape. Returns samples a second, of the same shape."""
            ...


CANDIDATES = 50  # batch sizes that are looked at between the smallest and the largest
KEEP_FACTOR = 1.05  # the batch is changed only for more than so much


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
        return np.asarray(speed * self._efficiency(samples))

    def best(self, num_nodes: npt.ArrayLike, num_gpus: npt.ArrayLike, gpu_type: str | None = None) -> BatchChoice:
        """The best batch of each allocation among CANDIDATES geometric ones from max(M0, K m_min) to M_max, each with
        as little accumulation as lets it fit. Arrays of equal shape."""
        nodes, gpus = np.broadcast_arrays(np.asarray(num_nodes), np.asarray(num_gpus))
        model, factor = self._model(gpu_type)
        k = gpus.reshape(-1, 1).astype(float)
        atomic, steps, allowed = self._candidates(np.maximum(k, 1))
        speed = factor * model.throughput(nodes.reshape(-1, 1), np.maximum(k, 1), atomic, steps)
        value = speed * self._efficiency(np.maximum(k, 1) * atomic * (steps + 1))
        value = np.where(allowed & (k >= 1), value, 0.0)
        pick = np.argmax(value, axis=1)
        rows = np.arange(len(pick))
        some = value[rows, pick] > 0

        def shaped(array: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            return np.asarray(np.where(some, array[rows, pick], 0.0).reshape(gpus.shape))

        return BatchChoice(
            shaped(value), shaped(atomic).astype(np.int64), shaped(steps).astype(np.int64), shaped(speed)
        )

    def keep_or_change(
        self, num_nodes: int, num_gpus: int, atomic_batch: int, accumulation: int, gpu_type: str | None = None
    ) -> tuple[int, int]:
        """(atomic batch, accumulation) to go on with: the present one unless the best is better by KEEP_FACTOR."""
        choice = self.best(num_nodes, num_gpus, gpu_type)
        now = 0.0
        if atomic_batch >= 1:
            now = float(self.at(num_nodes, num_gpus, atomic_batch, accumulation, gpu_type))
        if float(choice.goodput) > KEEP_FACTOR * now:
            return int(choice.atomic_batch), int(choice.accumulation)
        return atomic_batch, accumulation

    def _model(self, gpu_type: str | None) -> tuple[StepTimeModel, float]:
        """The model for a type, and by what its throughput is to be multiplied."""
        if gpu_type is None or gpu_type in self.models:
            return self.models[gpu_type if gpu_type is not None else next(iter(self.models))], 1.0
        first = next(iter(self.models))
        known, wanted = self.type_speed.get(first), self.type_speed.get(gpu_type)
        return self.models[first], wanted / known if known and wanted else 1.0

    def _efficiency(self, batch: npt.NDArray[np.float64]) -> Floats:
        return efficiency(self.phi, self.bounds.init_batch, batch) if self.use_efficiency else np.ones_like(batch)

    def _candidates(self, k: Floats) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """(atomic batch, accumulation, whether allowed), each of shape (len(k), CANDIDATES). `k` has shape (n, 1)."""
        bounds = self.bounds
        low = np.maximum(bounds.init_batch, k * bounds.min_local)
        high = np.maximum(low, bounds.max_batch)
        batch = low * (high / low) ** np.linspace(0.0, 1.0, CANDIDATES)
        local = batch / k
        fits = float(bounds.max_local) if bounds.max_local is not None else np.inf
        # A single replica gets no accumulation for its own sake: its noise is measured from successive gradients.
        steps = np.maximum(np.ceil(local / fits - 1e-9) - 1, 0) if bounds.accumulate else np.zeros_like(local)
        atomic = np.minimum(np.maximum(np.ceil(local / (steps + 1) - 1e-9), bounds.min_local), fits)
        samples = k * atomic * (steps + 1)
        # Rounding up may pass the limit by a sample a replica; at the smallest batch it may not be helped.
        over = (samples > bounds.max_batch) & (atomic > bounds.min_local)
        atomic = np.where(over, atomic - 1, atomic)
        samples = k * atomic * (steps + 1)
        least = np.minimum(low, bounds.max_batch)
        allowed = (samples <= bounds.max_batch) & (samples + k * (steps + 1) > least) & (atomic >= 1)
        return atomic, steps, allowed


def speedup_table(function: GoodputFunction, most: int, gpus_per_node: int) -> dict[int, float]:
    """k -> goodput(k) / goodput(1) for 1 to `most` GPUs packed onto hosts of `gpus_per_node`."""
    k = np.arange(1, most + 1)
    values = function(-(-k // gpus_per_node), k)
    return {int(n): float(v / values[0]) for n, v in zip(k, values)}
