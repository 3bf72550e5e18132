"""The search for a configuration by Bayesian optimisation, as in CherryPick (Alipourfard et al., NSDI 2017).
Pure.

Trials are compared by the logarithm of what they cost, so that an expected improvement is a share of the best found: a
search ends when the next trial is expected to gain less than a tenth. The Gaussian process is scikit-learn's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel

from schedulearn.scheduler.advisor.configurations import Goal, Outcome, Point

Array = NDArray[np.float64]

FIRST = 7
"""Trials before anything can be expected, far from each other: the corners come first."""
LEAST_SHARE = 0.24
"""Of all configurations: before so many were tried no search ends by itself. Few trials know little of what they don't
know."""
GAIN = 0.1
"""The expected improvement, as a share of the best found, below which a search ends."""
_FAILED = math.log(4.0)  # a trial that failed counts as so many times as bad as the worst that did not


class Next(NamedTuple):
    """What to do after some trials."""

    point: int | None
    """Index of the configuration to try; None: the search ends."""
    gain: float | None
    """The expected improvement by it, as a share of the best found; None: nothing can be expected yet."""
    why: str


def next_trial(
    points: Sequence[Point], tried: Mapping[int, Outcome | None], goal: Goal, most: int, seed: int = 0
) -> Next:
    """`tried`: index of a point -> its outcome, None where its trial failed. `most`: trials at most. The same trials
    give the same answer."""
    left = [index for index in range(len(points)) if index not in tried]
    if not left:
        return Next(None, None, "Every configuration was tried.")
    if len(tried) >= most:
        return Next(None, None, f"{len(tried)} trials were made, as many as the search may make.")
    features = _features(points)
    done = [index for index in sorted(tried) if tried[index] is not None]
    if len(tried) < FIRST or not done:
        return Next(_far(features, sorted(tried), left, seed), None, "One of the first trials, far from the others.")
    values = _values(tried, goal)
    gains = _expected_gains(features, values, left)
    best = max(range(len(left)), key=lambda at: (gains[at], -left[at]))
    gain = float(gains[best])
    if gain < GAIN and len(tried) >= max(FIRST + 1, math.ceil(LEAST_SHARE * len(points))):
        return Next(None, gain, f"The next trial is expected to gain {gain:.1%}, less than {GAIN:.0%}.")
    return Next(left[best], gain, f"It is expected to gain {gain:.1%}.")


def _features(points: Sequence[Point]) -> Array:
    """(points, features): in each from 0 to 1. Counts and sizes by their logarithm; what one GPU gets of a batch stands
    beside them, since memory and the time of a pass follow from it."""
    types = sorted({point.gpu_type for point in points})
    columns = [
        [math.log2(point.gpus) for point in points],
        [math.log2(max(1, point.batch_size)) for point in points],
        [math.log2(max(1, point.batch_size) / point.gpus) for point in points],
        *([float(point.gpu_type == name) for point in points] for name in types[1:]),
    ]
    found = np.array(columns, dtype=float).T
    low, high = found.min(axis=0), found.max(axis=0)
    return np.asarray((found - low) / np.where(high > low, high - low, 1.0))


def _values(tried: Mapping[int, Outcome | None], goal: Goal) -> dict[int, float]:
    """Logarithms; of failed trials what is worse than any other."""
    able = {index: math.log(max(found.value(goal), 1e-9)) for index, found in tried.items() if found is not None}
    worst = max(able.values()) + _FAILED
    return {index: able.get(index, worst) for index in sorted(tried)}


def _far(features: Array, tried: Sequence[int], left: Sequence[int], seed: int) -> int:
    """The point farthest from all that were tried; the first one is drawn."""
    if not tried:
        return left[int(np.random.default_rng(seed).integers(len(left)))]
    apart = np.linalg.norm(features[left][:, None] - features[list(tried)][None], axis=2).min(axis=1)
    return left[int(apart.argmax())]


def _expected_gains(features: Array, values: Mapping[int, float], left: Sequence[int]) -> Array:
    """(left,): by how much of the best value each is expected to be better than it."""
    y = np.array([values[index] for index in values])
    spread = max(float(y.std()), 1e-3)
    # A quadratic trend, and what bends beside it: by a trend it knows where to look beyond what was tried.
    bends = ConstantKernel(1.0, (0.3, 5.0)) * Matern(np.full(features.shape[1], 0.7), (0.3, 1.5), nu=2.5)
    trend = ConstantKernel(1.0, (0.1, 10.0)) * DotProduct(1.0, (0.1, 10.0)) ** 2
    process = GaussianProcessRegressor(bends + trend + WhiteKernel(1e-3, (1e-5, 1e-2)), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a bound that is reached is as good as what is beyond
        process.fit(features[list(values)], (y - y.mean()) / spread)
    mean, deviation = process.predict(features[list(left)], return_std=True)
    mean, deviation = mean * spread + y.mean(), np.maximum(deviation * spread, 1e-9)
    # The mean of max(0, 1 - exp(v - best)) over v: how much smaller the value is expected to be, as a share.
    below = (y.min() - mean) / deviation
    most = np.minimum(mean - y.min() + deviation**2 / 2, 50.0)
    share = special.ndtr(below) - np.exp(most) * special.ndtr(below - deviation)
    return np.asarray(np.maximum(share, 0.0))
