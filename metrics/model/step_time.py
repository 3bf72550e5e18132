"""Step-time model of data-parallel training, and its fit.

Source: Pollux, OSDI 2021, section 3.2 and eq. 8 to 12. K replicas on N hosts have the atomic batch m (samples per
replica in one micro-step) and a accumulation steps before each update:

    T_grad = alpha_grad + beta_grad m                       one micro-step over m samples
    T_sync = 0                               K = 1          averaging gradients
           = alpha_local + beta_local (K-2)  N = 1, K >= 2
           = alpha_node  + beta_node  (K-2)  N >= 2
    T_iter = (T_grad^gamma + T_sync^gamma)^(1/gamma)        a micro-step that synchronises; gamma: overlap of the two
    T_step = a T_grad + T_iter

Times are in seconds. NumPy only, and Python 3.8 syntax: training scripts import this.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

SMALLEST = 1e-8  # seconds: no time is zero, so that logarithms exist
LARGEST = 1e6  # seconds: no time is infinite, so that the search can't diverge where measurements set no limit
MULTI_HOST_PENALTY = 1.1  # minimum cost of synchronising over hosts, relative to within one
UNSEEN_NETWORK = 0.5  # minimum cost of synchronising over hosts until it is seen, relative to a micro-step's computing
FIXED = 0.3  # share of a micro-step's time that does not grow with its batch, until a second batch has been seen
LAUNCH_S = 0.01  # minimum of that time, to launch kernels, but at most half of a short micro-step
NARROW = 1.25  # batches that differ by less don't show how time grows with them: errors would be taken for it
MAX_MEASUREMENTS = 1000
_ROUNDS, _STRIDE = 60, 2.0  # of the search, and its maximum step: parameters change by e squared
_TINY = 1e-12  # gives the root a slope at a perfect fit, where it has a corner


@dataclass(frozen=True)
class StepTimeModel:
    """The seven parameters. Raises ValueError unless all are finite, times are >= 0 and gamma is 1 to 10."""

    alpha_grad: float
    """Seconds of a micro-step that do not depend on the batch."""
    beta_grad: float
    """Seconds per sample."""
    alpha_local: float
    """Seconds to synchronise two replicas on one host."""
    beta_local: float
    """Seconds more for each further replica on one host."""
    alpha_node: float
    """Seconds to synchronise two replicas on two hosts."""
    beta_node: float
    """Seconds more for each further replica on several hosts."""
    gamma: float
    """1: computing and synchronising take turns; 10: they overlap almost perfectly."""

    def __post_init__(self) -> None:
        values = np.array(astuple(self), dtype=float)
        if not np.all(np.isfinite(values)) or np.any(values < 0) or not 1 <= self.gamma <= 10:
            raise ValueError(f"not a step-time model: {self}")

    def grad_time(self, atomic_batch: npt.ArrayLike) -> Floats:
        """Seconds of one micro-step over `atomic_batch` samples per replica; any shape."""
        return np.asarray(self.alpha_grad + self.beta_grad * np.asarray(atomic_batch, dtype=float))

    def sync_time(self, num_nodes: npt.ArrayLike, num_replicas: npt.ArrayLike) -> Floats:
        """Seconds to average gradients of `num_replicas` on `num_nodes`; shapes that broadcast."""
        nodes, replicas = np.broadcast_arrays(np.asarray(num_nodes), np.asarray(num_replicas))
        further = np.maximum(replicas - 2, 0)
        local = self.alpha_local + self.beta_local * further
        remote = self.alpha_node + self.beta_node * further
        return np.asarray(np.where(replicas <= 1, 0.0, np.where(nodes <= 1, local, remote)), dtype=float)

    def iter_time(self, num_nodes: npt.ArrayLike, num_replicas: npt.ArrayLike, atomic_batch: npt.ArrayLike) -> Floats:
        """Seconds of a micro-step that synchronises; shapes that broadcast."""
        grad, sync = np.broadcast_arrays(self.grad_time(atomic_batch), self.sync_time(num_nodes, num_replicas))
        return _smooth_max(np.maximum(grad, SMALLEST), sync, self.gamma)

    def step_time(
        self,
        num_nodes: npt.ArrayLike,
        num_replicas: npt.ArrayLike,
        atomic_batch: npt.ArrayLike,
        accumulation: npt.ArrayLike = 0,
    ) -> Floats:
        """Seconds from one update to the next; shapes that broadcast."""
        grad = self.grad_time(atomic_batch)
        return np.asarray(accumulation) * grad + self.iter_time(num_nodes, num_replicas, atomic_batch)


@dataclass(frozen=True)
class StepTimes:
    """Measured micro-steps; five arrays of one shape (n,), n >= 1.

    Raises ValueError, naming the array, for values that can't be measurements: NaN, infinite, not above 0, more
    nodes than replicas, or an `iter_time` that is missing. All are refused, so that nothing wrong is fitted.
    """

    num_nodes: Floats
    num_replicas: Floats
    atomic_batch: Floats
    grad_time: Floats
    """Seconds of a micro-step without synchronising (T_grad)."""
    iter_time: Floats
    """Seconds of a micro-step with it (T_iter)."""

    def __post_init__(self) -> None:
        shape = None
        for name in ("num_nodes", "num_replicas", "atomic_batch", "grad_time", "iter_time"):
            values = np.asarray(getattr(self, name), dtype=float)
            if values.ndim != 1 or values.size == 0 or (shape is not None and values.shape != shape):
                raise ValueError(
                    f"{name} must be a list of numbers, as long as the others, not of shape {values.shape}"
                )
            if not np.all(np.isfinite(values)) or np.any(values <= 0):
                raise ValueError(f"{name} must hold finite numbers above 0")
            shape = values.shape
            object.__setattr__(self, name, values)
        if np.any(self.num_nodes > self.num_replicas):
            raise ValueError("num_nodes must not exceed num_replicas")

    def __len__(self) -> int:
        return len(self.num_nodes)


def fit(times: StepTimes, before: StepTimeModel | None = None) -> StepTimeModel:
    """Return the model that explains `times` best.

    It minimises RMSLE(T_grad) + RMSLE(T_iter) + 1e-3 (gamma - 1)^2 +
    1e-2 [(beta_node / alpha_node)^2 + (beta_local / alpha_local)^2] (Pollux, section 4.1, and its artifact).

    Parameters that no measurement determines are held back rather than guessed, on the side of optimism. This makes a
    job be tried on more GPUs. Unseen synchronisation within a host counts as (almost) free, over hosts as
    UNSEEN_NETWORK of a micro-step. A second round leaves out measurements that are far from all others of the fit. The
    fit is deterministic. The search is our own. L-BFGS-B stops anywhere in flat valleys, so errors of 1e-12
    changed predictions by up to 59 %. SciPy's `least_squares` has no such loss.

    `before`: the fit of most of the same measurements. The search then starts there and takes a fraction of the time.
    """
    seen = _thinned(times)
    weights = np.ones(len(seen))
    model = _fit_weighted(seen, weights, before)
    for _ in range(2):
        odd = outliers(seen, model)
        if not odd.any() or odd.mean() > 0.25:
            break
        weights = np.where(odd, 0.0, 1.0)
        model = _fit_weighted(seen, weights, model)
    return model


def rms_relative_error(model: StepTimeModel, times: StepTimes) -> float:
    """Root mean square of (predicted - measured) / measured over T_iter."""
    seen = times
    predicted = model.iter_time(seen.num_nodes, seen.num_replicas, seen.atomic_batch)
    return float(np.sqrt(np.mean((predicted / seen.iter_time - 1) ** 2)))


def _smooth_max(grad: Floats, sync: Floats, gamma: float) -> Floats:
    """(grad^gamma + sync^gamma)^(1/gamma), scaled so that small times raised to a high power do not vanish."""
    larger = np.maximum(grad, sync)
    return np.asarray(larger * ((grad / larger) ** gamma + (sync / larger) ** gamma) ** (1 / gamma))


def _thinned(times: StepTimes) -> StepTimes:
    """Return the newest MAX_MEASUREMENTS."""
    if len(times) <= MAX_MEASUREMENTS:
        return times
    newest = slice(-MAX_MEASUREMENTS, None)
    return StepTimes(
        times.num_nodes[newest],
        times.num_replicas[newest],
        times.atomic_batch[newest],
        times.grad_time[newest],
        times.iter_time[newest],
    )


def outliers(seen: StepTimes, model: StepTimeModel) -> npt.NDArray[np.bool_]:
    """Whether each measurement is off by far more than the others usually are, and by more than half."""
    error = np.maximum(
        np.abs(np.log(model.grad_time(seen.atomic_batch) / seen.grad_time)),
        np.abs(np.log(model.iter_time(seen.num_nodes, seen.num_replicas, seen.atomic_batch) / seen.iter_time)),
    )
    usual = 1.4826 * float(np.median(np.abs(error - np.median(error))))
    return np.asarray(error > np.maximum(float(np.median(error)) + 4 * usual, np.log(1.5)))


def _fit_weighted(seen: StepTimes, weights: Floats, before: StepTimeModel | None) -> StepTimeModel:
    start, lower, upper = _bounds(seen, weights > 0)
    free = lower < upper
    if before is not None:
        known = np.array(astuple(before))
        usable = free & (known > 10 * SMALLEST)  # what was held back before starts as if nothing were known
        start[usable] = np.clip(known, lower, upper)[usable]
    if free.any():
        start = _descended(start, lower, upper, seen, weights / weights.sum())
    return _released(start, seen, weights > 0)


def _descended(start: Floats, lower: Floats, upper: Floats, seen: StepTimes, weights: Floats) -> Floats:
    """Return the parameters of minimum loss, searched from `start` on.

    The search is Levenberg and Marquardt's method on the logarithms of the parameters, which span orders of magnitude.
    A general quasi-Newton search stops somewhere in this loss's flat valleys, at a place that depends on the last digit
    of the measurements. It also takes five times as long.
    """
    free = lower < upper
    low, high = np.log(lower[free]), np.log(upper[free])
    loss_of, both = _Loss(seen, weights), np.ix_(free, free)

    def look(logs: Floats) -> tuple[float, Floats, Floats]:
        x = start.copy()
        x[free] = np.exp(logs)
        loss, slope, curvature = loss_of(x)
        return loss, slope[free] * x[free], curvature[both] * np.outer(x[free], x[free])

    at, damping = np.log(start[free]), 1e-2
    loss, slope, curvature = look(at)
    for _ in range(_ROUNDS):
        moves = ~(((at <= low) & (slope > 0)) | ((at >= high) & (slope < 0)))
        own = np.maximum(curvature.diagonal(), 1e-9)
        system = curvature + damping * np.diag(own)
        if moves.all():
            step = np.clip(np.linalg.solve(system, -slope), -_STRIDE, _STRIDE)
        else:
            step = np.zeros_like(at)
            solved = np.linalg.solve(system[moves][:, moves], -slope[moves])
            step[moves] = np.clip(solved, -_STRIDE, _STRIDE)
        to = np.clip(at + step, low, high)
        there = look(to)
        gained, moved = loss - there[0], float(np.abs(to - at).max(initial=0.0))
        if gained > 0:
            at, (loss, slope, curvature), damping = to, there, max(damping / 5, 1e-9)
        else:
            damping *= 4
        if moved < 1e-8 or 0 < gained < 1e-13:
            break
    x = start.copy()
    x[free] = np.clip(np.exp(at), lower[free], upper[free])
    return x


def _bounds(seen: StepTimes, used: npt.NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Start, lower and upper bound of each parameter; equal bounds freeze what `seen` can't tell."""
    start = np.array([0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001])
    lower = np.array([SMALLEST] * 6 + [1.0])
    upper = np.array([LARGEST] * 6 + [10.0])
    nodes, replicas, batch = (a[used] for a in (seen.num_nodes, seen.num_replicas, seen.atomic_batch))
    scale = float(np.median(seen.grad_time[used]))
    start[:6:2], start[1] = scale / 2, scale / 2 / float(np.median(batch))
    start[[3, 5]] = scale / 20

    def freeze(index: int, value: float) -> None:
        start[index] = lower[index] = upper[index] = value

    if batch.max() < NARROW * batch.min():
        # About one batch size: it is unknown how time grows with it.
        mean = float(np.exp(np.mean(np.log(seen.grad_time[used]))))
        fixed = max(FIXED * mean, min(LAUNCH_S, mean / 2))
        freeze(0, fixed)
        freeze(1, (mean - fixed) / float(np.exp(np.mean(np.log(batch)))))
    local, remote = (nodes == 1) & (replicas >= 2), nodes >= 2
    for alpha, rows in ((2, local), (4, remote)):
        if not rows.any():
            freeze(alpha, SMALLEST)
        if not (rows & (replicas > 2)).any():
            freeze(alpha + 1, SMALLEST)
    if not (local | remote).any():
        freeze(6, 1.0)  # nothing to overlap with yet
    return start, lower, upper


def _released(x: Floats, seen: StepTimes, used: npt.NDArray[np.bool_]) -> StepTimeModel:
    """Return the model, with minimum costs of synchronising over hosts if that was not measured.

    The minimum is MULTI_HOST_PENALTY times the cost within one host, and UNSEEN_NETWORK of a micro-step. More hosts
    still promise more speed, so that a job is tried on them.
    """
    if not (seen.num_nodes[used] >= 2).any():
        x[4] = max(x[4], MULTI_HOST_PENALTY * x[2], UNSEEN_NETWORK * float(np.median(seen.grad_time[used])))
        x[5] = max(x[5], MULTI_HOST_PENALTY * x[3])
    return StepTimeModel(*(float(v) for v in x))


class _Loss:
    """Loss of a fit to `seen` with `weights`, which sum to 1. Values that no parameter changes are computed once."""

    def __init__(self, seen: StepTimes, weights: Floats) -> None:
        self.weights, self.batch = weights, seen.atomic_batch
        self.further = np.maximum(seen.num_replicas - 2, 0)
        alone = seen.num_replicas <= 1
        self.local = (seen.num_nodes <= 1) & (seen.num_replicas > 1)
        self.remote = ~alone & ~self.local
        self.log_grad, self.log_iter = np.log(seen.grad_time), np.log(seen.iter_time)
        # Only where synchronising was seen: frozen parameters would add a constant, and a large one.
        held_back = (((2, 3), self.local), ((4, 5), self.remote))
        self.held_back = [pair for pair, rows in held_back if rows.any()]
        self.of_grad = np.zeros((7, len(seen)))
        self.of_iter = np.zeros((7, len(seen)))

    def __call__(self, x: Floats) -> tuple[float, Floats, Floats]:
        """Return the loss, its gradient by the seven parameters, and its curvature (7, 7) by Gauss and Newton.

        The curvature is that of a loss which touches this one here and is nowhere below it.
        """
        gamma = x[6]
        grad, iter_ = self._logs(x)
        loss, gradient, curvature = 0.0, np.zeros(7), np.zeros((7, 7))
        for error, slopes in ((grad - self.log_grad, self.of_grad), (iter_ - self.log_iter, self.of_iter)):
            rms = float(np.sqrt(np.sum(self.weights * error**2) + _TINY))
            weighted = slopes * (self.weights / rms)
            loss += rms
            gradient += weighted @ error
            curvature += weighted @ slopes.T
        loss += 1e-3 * float(gamma - 1) ** 2
        gradient[6] += 2e-3 * (gamma - 1)
        curvature[6, 6] += 2e-3
        for alpha, beta in self.held_back:
            ratio = x[beta] / x[alpha]
            slope = np.array([-ratio, 1.0]) / x[alpha]  # of the ratio, by alpha and beta
            loss += 1e-2 * float(ratio) ** 2
            both = slice(alpha, beta + 1)
            gradient[both] += 2e-2 * ratio * slope
            curvature[both, both] += 2e-2 * np.outer(slope, slope)
        return loss, gradient, curvature

    def _logs(self, x: Floats) -> tuple[Floats, Floats]:
        """Return log T_grad and log T_iter; put their derivatives by each parameter into `of_grad` and `of_iter`."""
        alpha_grad, beta_grad, alpha_local, beta_local, alpha_node, beta_node, gamma = x
        batch, further = self.batch, self.further
        grad = alpha_grad + beta_grad * batch
        remote = np.where(self.remote, alpha_node + beta_node * further, 0.0)
        sync = np.where(self.local, alpha_local + beta_local * further, remote)
        larger = np.maximum(grad, sync)
        part_grad, part_sync = grad / larger, sync / larger
        p, q = part_grad**gamma, part_sync**gamma
        total = p + q
        log_total = np.log(total)
        positive = sync > 0
        some_sync = np.where(positive, sync, 1.0)
        by_grad = p / total / grad  # d log T_iter by T_grad, T_sync and gamma
        by_sync = np.where(positive, q / total / some_sync, 0.0)
        log_q = np.log(np.where(positive, sync, larger) / larger)
        by_gamma = (p * np.log(part_grad) + q * log_q) / (total * gamma) - log_total / gamma**2
        by_local, by_remote = by_sync * self.local, by_sync * self.remote
        self.of_grad[0], self.of_grad[1] = 1 / grad, batch / grad
        rows = (by_grad, by_grad * batch, by_local, by_local * further, by_remote, by_remote * further, by_gamma)
        for at, row in enumerate(rows):
            self.of_iter[at] = row
        return np.log(grad), np.log(larger) + log_total / gamma
