"""Bayesian search for a configuration, as in CherryPick. Pure.

Source: Alipourfard et al., NSDI 2017. Prices are known, but the time of a trial is not. A Gaussian process
(scikit-learn's) therefore models the logarithm of the time, and the price is added for the goal. An expected
improvement is then a share of the best found. A search ends when the next trial is expected to gain less than a tenth.

A dozen trials do not determine the parameters of the kernel, and a single kernel fitted to them trusts itself too much.
Many kernels are used instead. Each counts by how likely it makes the trials.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Kernel, Matern

from schedulearn.features.sweeps.models.configurations import CandidatePoint, Goal, TrialOutcome

Array = NDArray[np.float64]

MIN_SHARE = 0.24
"""Minimum share of all configurations to try before a search ends by itself. After few trials, the model underestimates
its own uncertainty."""
MIN_TRIALS = 8
"""The same as a number of trials, for few configurations."""
GAIN = 0.1
"""The expected improvement, as a share of the best found, below which a search ends."""
_FIRST_SHARE = 0.6  # maximum share of the allowed trials before the process is used
_FAILED = math.log(4.0)  # a failed trial counts as that many times as bad as the worst other one
_NOISE = 1e-3  # variance of a trial, where the values have one of 1
_LENGTHS = (0.3, 0.6, 1.2)
_HEIGHTS = (0.3, 1.0)
_WEIGHT = {"time": 0.0, "both": 0.5, "cost": 1.0}  # of the price's logarithm in the goal


class Next(NamedTuple):
    """Next step of a search."""

    point: int | None
    """Index of the configuration to try; None: the search ends."""
    gain: float | None
    """The expected improvement by it, as a share of the best found; None: nothing can be expected yet."""
    why: str


def next_trial(
    points: Sequence[CandidatePoint],
    prices: Sequence[float],
    tried: Mapping[int, TrialOutcome | None],
    goal: Goal,
    most: int,
    seed: int = 0,
) -> Next:
    """Choose the next trial. The same trials give the same answer.

    `prices`: price per second of each point. `tried`: index of a point -> its outcome, None where its trial failed.
    `most`: maximum number of trials.
    """
    left = [index for index in range(len(points)) if index not in tried]
    if not left:
        return Next(None, None, "Every configuration was tried.")
    if len(tried) >= most:
        return Next(None, None, f"{len(tried)} trials were made, the maximum of this search.")
    features = _features(points)
    corners = _corners(points)
    first = min(len(corners), max(1, math.ceil(_FIRST_SHARE * most)))
    if len(tried) < first or all(outcome is None for outcome in tried.values()):
        among = [index for index in corners if index not in tried] or left
        return Next(_far(features, sorted(tried), among, seed), None, "One of the first trials, far from the others.")
    gains = _expected_gains(features, np.log(np.maximum(prices, 1e-12)) * _WEIGHT[goal], tried, left)
    best = max(range(len(left)), key=lambda at: (gains[at], -left[at]))
    gain = float(gains[best])
    if gain < GAIN and len(tried) >= max(MIN_TRIALS, first + 1, math.ceil(MIN_SHARE * len(points))):
        return Next(None, gain, f"The next trial is expected to gain {gain:.1%}, less than {GAIN:.0%}.")
    return Next(left[best], gain, f"Expected gain: {gain:.1%}.")


def _features(points: Sequence[CandidatePoint]) -> Array:
    """Return the features, (points, features), each from -0.5 to 0.5.

    Counts and sizes are logarithms, and each type is a column.
    """
    types = sorted({point.gpu_type for point in points})
    columns = [
        [math.log2(point.gpus) for point in points],
        [math.log2(max(1, point.batch_size)) for point in points],
        *([float(point.gpu_type == name) for point in points] for name in types if len(types) > 1),
    ]
    found = np.array(columns, dtype=float).T
    low, high = found.min(axis=0), found.max(axis=0)
    return np.asarray((found - low) / np.where(high > low, high - low, 1.0) - 0.5)


def _corners(points: Sequence[CandidatePoint]) -> list[int]:
    """Return, for each type, the fewest and the most GPUs, with the smallest and the largest batch of each.

    If time and cost only rise, or only fall, with the number of GPUs and the batch, the best point is one of these.
    """
    found: dict[int, None] = {}
    for name in sorted({point.gpu_type for point in points}):
        of_type = [index for index, point in enumerate(points) if point.gpu_type == name]
        counts = {points[index].gpus for index in of_type}
        for count in (min(counts), max(counts)):
            sizes = {points[index].batch_size: index for index in of_type if points[index].gpus == count}
            found |= {sizes[min(sizes)]: None, sizes[max(sizes)]: None}
    return list(found)


def _far(features: Array, tried: Sequence[int], among: Sequence[int], seed: int) -> int:
    """Return the point farthest from all that were tried; the first one is drawn at random."""
    if not tried:
        return among[int(np.random.default_rng(seed).integers(len(among)))]
    apart = np.linalg.norm(features[among][:, None] - features[list(tried)][None], axis=2).min(axis=1)
    return among[int(apart.argmax())]


def _expected_gains(
    features: Array, known: Array, tried: Mapping[int, TrialOutcome | None], left: Sequence[int]
) -> Array:
    """Return the expected improvement by each point, (left,), as a share of the best value.

    `known`: what each point's price adds to the logarithm of its time.
    """
    done = sorted(tried)
    times = {index: math.log(max(found.seconds, 1e-9)) for index, found in tried.items() if found is not None}
    worst = max(times.values()) + _FAILED
    y = np.array([times.get(index, worst) for index in done])
    best = min(times[index] + known[index] for index in times)
    spread = max(float(y.std()), 1e-3)
    likelihoods, gains = [], []
    for kernel in _kernels(features.shape[1]):
        process = GaussianProcessRegressor(kernel, alpha=_NOISE, optimizer=None)
        process.fit(features[done], (y - y.mean()) / spread)
        mean, deviation = process.predict(features[list(left)], return_std=True)
        likelihoods.append(process.log_marginal_likelihood_value_)
        value = mean * spread + y.mean() + known[list(left)]
        gains.append(_improvement(best, value, np.maximum(deviation * spread, 1e-9)))
    weights = np.exp(np.array(likelihoods) - max(likelihoods))
    return np.asarray(weights @ np.array(gains) / weights.sum())


def _kernels(features: int) -> list[Kernel]:
    """Return kernels of a quadratic trend and deviations from it. The trend extends beyond the points tried."""
    return [
        ConstantKernel(height) * Matern([by_gpus, by_batch, *[1.0] * (features - 2)], nu=2.5)
        + ConstantKernel(trend) * DotProduct(1.0) ** 2
        for by_gpus, by_batch, height, trend in itertools.product(_LENGTHS, _LENGTHS, _HEIGHTS, _HEIGHTS)
    ]


def _improvement(best: float, mean: Array, deviation: Array) -> Array:
    """Return the mean of max(0, 1 - exp(v - best)) over values v: the expected improvement, as a share."""
    below = (best - mean) / deviation
    most = np.minimum(mean - best + deviation**2 / 2, 50.0)
    share = special.ndtr(below) - np.exp(most) * special.ndtr(below - deviation)
    return np.asarray(np.maximum(share, 0.0))
