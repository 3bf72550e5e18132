"""Search for the best batches of many jobs on many allocations.

All pairs of a job and an allocation are searched at once. The search tries batches on a coarse geometric grid, then
around the best of it. Each has the minimum accumulation with which it fits. Unless efficiency bounds them too, the
batches depend only on the bounds of a job and its number of GPUs. They are then computed once and cached. NumPy only,
and Python 3.8 syntax: training scripts import this.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np

from schedulearn.metrics.model.step_time import SMALLEST

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Ints = npt.NDArray[np.int64]

_COARSE, _FINE = 12, 9  # batch sizes to try between the smallest and the largest, then around the best
_COARSE_GRID, _FINE_GRID = np.linspace(0.0, 1.0, _COARSE), np.linspace(-1.0, 1.0, _FINE)
_MAX_KEPT = 30_000  # maximum searches, coarse or fine, whose candidates are cached: 10 MB
_AT_ONCE = 1024  # pairs that are searched together: with more, an array does not fit into a core's cache


class Parameters(NamedTuple):
    """Parameters of a job for the search. Times are seconds, of its model on the GPUs in question."""

    alpha_grad: float
    beta_grad: float
    alpha_local: float
    beta_local: float
    alpha_node: float
    beta_node: float
    gamma: float
    factor: float
    """Factor on its throughput."""
    phi: float
    use_efficiency: float
    init_batch: float
    min_local: float
    max_local: float
    accumulate: float
    alone_steps: float
    max_batch: float
    min_efficiency: float


PHI = 8  # its index in Parameters
_BOUNDS = slice(10, 16)
_MIN_EFFICIENCY = 16


class Found(NamedTuple):
    """Best batch of each pair of a job and an allocation; all 0 where no batch is allowed."""

    goodput: Floats
    batch: Floats
    atomic_batch: Floats
    accumulation: Floats
    throughput: Floats


class _Made(NamedTuple):
    """Batches as micro-steps; arrays (pairs, candidates)."""

    atomic: Floats
    """Samples of the replica that has the most."""
    steps: Floats
    samples: Floats
    """Total of all replicas; below `atomic` for each replica and micro-step if the largest batch is no multiple."""
    allowed: npt.NDArray[np.bool_]

    def of(self, rows: Any) -> _Made:
        return _Made(*(each[rows] for each in self))

    def and_more(self, other: _Made) -> _Made:
        return _Made(*(np.concatenate(both) for both in zip(self, other)))


def search(parameters: Sequence[Parameters] | Floats, job: Ints, nodes: Ints, gpus: Ints) -> Found:
    """Search for pairs (n,): `job` is a row of `parameters` (any, 17); the other two are its allocation."""
    table = np.array(parameters, dtype=float)
    parts = [
        _search(table[job[at : at + _AT_ONCE]], nodes[at : at + _AT_ONCE], gpus[at : at + _AT_ONCE])
        for at in range(0, max(1, len(job)), _AT_ONCE)
    ]
    return parts[0] if len(parts) == 1 else Found(*(np.concatenate(each) for each in zip(*parts)))


def _search(table: Floats, nodes: Ints, gpus: Ints) -> Found:
    k = np.maximum(gpus, 1).astype(float)
    careful = table[:, _MIN_EFFICIENCY] > 0
    if not careful.any():
        found = _best(table, nodes, k, _kept())
    elif careful.all():
        found = _best(table, nodes, k, None)
    else:
        found = Found(*(np.empty(len(k)) for _ in Found._fields))
        for some, kept in ((careful, None), (~careful, _kept())):
            for array, values in zip(found, _best(table[some], nodes[some], k[some], kept)):
                array[some] = values
    some = (found.goodput > 0) & (gpus >= 1)
    return Found(*(np.where(some, each, 0.0) for each in found))


def _best(table: Floats, nodes: Ints, k: Floats, kept: _Kept | None) -> Found:
    speed = _Speed(table, nodes, k)
    if kept is not None:
        rows, coarse = kept.coarse(np.column_stack([table[:, _BOUNDS], k]))
        first = speed.best_of(coarse)
        again = speed.best_of(kept.fine(rows, first.pick))
    else:
        candidates = _Candidates(table[:, _BOUNDS], k, table[:, PHI], table[:, _MIN_EFFICIENCY])
        coarse = candidates.made(candidates.coarse())
        first = speed.best_of(coarse)
        at = np.arange(len(k)), first.pick
        again = speed.best_of(candidates.made(candidates.around(coarse.samples[at])))
    better = again.found.goodput > first.found.goodput
    return Found(*(np.where(better, new, old) for new, old in zip(again.found, first.found)))


class _Picked(NamedTuple):
    pick: Ints
    found: Found


class _Speed:
    """Throughput and goodput of the jobs of pairs."""

    def __init__(self, table: Floats, nodes: Ints, k: Floats) -> None:
        columns = table.T[:, :, None]
        self.alpha, self.beta, alpha_l, beta_l, alpha_n, beta_n, self.gamma, self.factor = columns[:8]
        self.phi, self.use_efficiency, self.init = columns[8:11]
        k = k[:, None]
        further = np.maximum(k - 2, 0)
        sync = np.where(nodes[:, None] <= 1, alpha_l + beta_l * further, alpha_n + beta_n * further) * (k > 1)
        # Powers take most of the time, and pairs that do not synchronise need none.
        self.synchronises = np.flatnonzero(sync[:, 0] > 0)
        self.sync, self.power = sync[self.synchronises], self.gamma[self.synchronises]

    def best_of(self, made: _Made) -> _Picked:
        """Return the best of the candidates."""
        grad = np.maximum(self.alpha + self.beta * made.atomic, SMALLEST)
        both = self._with_sync(grad)
        speed = self.factor * made.samples / (made.steps * grad + both)
        gain = np.where(self.use_efficiency > 0, (self.phi + self.init) / (self.phi + made.samples), 1.0)
        value = np.where(made.allowed, speed * gain, 0.0)
        pick = value.argmax(axis=1)
        at = np.arange(len(pick)), pick
        return _Picked(pick, Found(value[at], made.samples[at], made.atomic[at], made.steps[at], speed[at]))

    def _with_sync(self, grad: Floats) -> Floats:
        # (grad^gamma + sync^gamma)^(1/gamma) by the larger of the two, so that small times raised high don't vanish
        mine = grad[self.synchronises]
        larger, smaller = np.maximum(mine, self.sync), np.minimum(mine, self.sync)
        both = grad.copy()
        both[self.synchronises] = larger * (1.0 + (smaller / larger) ** self.power) ** (1.0 / self.power)
        return both


class _Candidates:
    """Batches to try. `bounds` (n, 6) as in Parameters, `k` GPUs (n,)."""

    def __init__(self, bounds: Floats, k: Floats, phi: Floats | None = None, least: Floats | None = None) -> None:
        self.init, self.min_local, self.max_local, self.may_accumulate, self.alone_steps, max_batch = bounds.T[
            :, :, None
        ]
        self.k = k[:, None]
        self.low = np.maximum(self.init, self.k * self.min_local)
        self.most = max_batch
        if phi is not None and least is not None:
            # The minimum batch of these GPUs is allowed, however little a sample is worth then.
            share = np.where(least > 0, least, 1.0)[:, None]
            efficient = np.where(least[:, None] > 0, (phi[:, None] + self.init) / share - phi[:, None], np.inf)
            self.most = np.minimum(max_batch, np.maximum(self.low, efficient))
        self.high = np.maximum(self.low, self.most)
        self.full = self.k * np.where(np.isfinite(self.max_local), self.max_local, self.high)

    def coarse(self) -> Floats:
        grid = self.low * (self.high / self.low) ** _COARSE_GRID
        # Beyond what fits in one micro-step, batches that fill every micro-step are local optima.
        passes = np.rint(grid / self.full)
        # The largest batch may leave GPUs waiting for the one with the most; the largest that doesn't is tried too.
        largest = self.made(self.high)
        shares = self.k * (largest.steps + 1)
        even = self._within(np.floor(self.high / shares) * shares)
        return np.concatenate([np.where(grid > self.full, self._within(passes * self.full), grid), even], axis=1)

    def around(self, centre: Floats) -> Floats:
        """Batches near `centre` (n,)."""
        centre = centre[:, None]
        step = (self.high / self.low) ** (1.0 / (_COARSE - 1))
        fine = centre * step**_FINE_GRID
        near = np.concatenate([np.floor(fine[:, ::3] / self.full), np.ceil(centre / self.full)], axis=1)
        return self._within(np.concatenate([fine, near * self.full], axis=1))

    def _within(self, batch: Floats) -> Floats:
        return np.asarray(np.minimum(np.maximum(batch, self.low), self.high))

    def made(self, batch: Floats) -> _Made:
        """Split batches as `BatchBounds.split` does, many at once."""
        k = self.k
        local = batch / k
        # Our SDK gives a single replica no accumulation for its own sake: it measures noise by successive gradients.
        steps = np.maximum(np.ceil(local / self.max_local - 1e-9) - 1, 0)
        steps = np.where((k == 1) & (batch > self.init + 1e-9), np.maximum(steps, self.alone_steps), steps)
        steps = steps * self.may_accumulate
        atomic = np.minimum(np.ceil(local / (steps + 1) - 1e-9), self.max_local)
        # Every share is filled, as all wait for the one with the most, but not above the largest batch.
        most = np.maximum(self.low, np.floor(self.most + 1e-9))
        samples = np.minimum(k * (steps + 1) * atomic, most)
        allowed = (self.low <= self.most) & (samples >= self.low) & (atomic >= 1)
        return _Made(atomic, steps, samples, allowed)


class _Kept:
    """Cache of candidates by bounds and number of GPUs. Decisions and forecasts use it from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._row: dict[bytes, int] = {}
        self._bounds = np.empty((0, 7))
        self._coarse = _Made(*(np.empty((0, _COARSE + 1), kind) for kind in (float, float, float, bool)))
        self._fine_at = np.empty((0, _COARSE + 1), dtype=np.int64)
        self._fine = _Made(*(np.empty((0, _FINE + 4), kind) for kind in (float, float, float, bool)))

    @property
    def full(self) -> bool:
        return len(self._bounds) + len(self._fine.atomic) > _MAX_KEPT

    def coarse(self, bounds: Floats) -> tuple[Ints, _Made]:
        """Return (a row for each of the pairs, its candidates)."""
        whose = _whose(bounds)
        with self._lock:
            unknown = [each for each in dict.fromkeys(whose) if each not in self._row]
            if unknown:
                self._learn(np.frombuffer(b"".join(unknown)).reshape(-1, 7), unknown)
            rows = np.array([self._row[each] for each in whose], dtype=np.int64)
            return rows, self._coarse.of(rows)

    def _learn(self, bounds: Floats, names: list[bytes]) -> None:
        candidates = _Candidates(bounds[:, :6], bounds[:, 6])
        self._row.update(zip(names, range(len(self._bounds), len(self._bounds) + len(names))))
        self._bounds = np.concatenate([self._bounds, bounds])
        self._coarse = self._coarse.and_more(candidates.made(candidates.coarse()))
        self._fine_at = np.concatenate([self._fine_at, np.full((len(names), _COARSE + 1), -1)])

    def fine(self, rows: Ints, pick: Ints) -> _Made:
        """Return the candidates around those of `rows` that were picked."""
        with self._lock:
            at = self._fine_at[rows, pick]
            if (at < 0).any():
                new = np.unique(np.stack([rows[at < 0], pick[at < 0]]), axis=1)
                which = new[0], new[1]
                candidates = _Candidates(self._bounds[new[0], :6], self._bounds[new[0], 6])
                around = candidates.around(self._coarse.samples[which])
                self._fine_at[which] = np.arange(len(new[0])) + len(self._fine.atomic)
                self._fine = self._fine.and_more(candidates.made(around))
                at = self._fine_at[rows, pick]
            return self._fine.of(at)


def _whose(bounds: Floats) -> list[bytes]:
    """Return a key for each row."""
    joined = np.ascontiguousarray(bounds).tobytes()
    width = bounds.shape[1] * bounds.itemsize
    return [joined[at : at + width] for at in range(0, len(joined), width)]


_everything: _Kept | None = None


def _kept() -> _Kept:
    global _everything
    if _everything is None or _everything.full:
        _everything = _Kept()
    return _everything
