"""Models of a job's run time or metric by its configuration. Pure.

The random forest is Courier's choice (Albo Martinez et al., ICPE 2021). The others are alternatives to it.
Cross-validation decides which one is used, for each history anew.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from schedulearn.features.sweeps.models.samples import Configuration
from schedulearn.scheduler.core.predictions.regression import CONFIDENCE, held_by_nine_of_ten

Array = NDArray[np.float64]
Folds = Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]]
"""Indices of the samples that a model has seen and has not."""
FOLDS = 5
_MIN_REPEATED = math.ceil(CONFIDENCE / (1 - CONFIDENCE))  # minimum number of errors: fewer have no ninth of ten
_MAX_FACTOR = 30.0  # maximum factor that half an interval of times may be
_MAX_NAMES = 20  # maximum families, and maximum types, that have a column of their own
_TREES = 100
SIZES = 6  # columns of counts and sizes; then those of names
MAX_SMOOTH = 300
_BUSIEST = 0.95  # maximum share of time that a queue is busy: at 1 no job would end


class Regressor(Protocol):
    def fit(self, configurations: Sequence[Configuration], y: Array) -> None: ...

    def predict(self, configurations: Sequence[Configuration]) -> Array: ...


class _Features:
    """Columns of numbers; a column for each of the most frequent families and types."""

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        self._families = _frequent([each.family for each in configurations])
        self._types = _frequent([each.gpu_type for each in configurations])

    def of(self, configurations: Sequence[Configuration]) -> Array:
        return np.array(
            [
                [
                    each.gpus, each.beside, each.processes, each.batch_size, each.epochs, each.input_size,
                    *(float(each.family == name) for name in self._families),
                    *(float(each.gpu_type == name) for name in self._types),
                ]
                for each in configurations
            ],
            float,
        )  # fmt: skip


def _frequent(names: Sequence[str]) -> list[str]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    # A single name needs no column.
    return sorted(counts, key=lambda name: (-counts[name], name))[:_MAX_NAMES] if len(counts) > 1 else []


class _Estimator(Protocol):
    def fit(self, x: Array, y: Array) -> object: ...

    def predict(self, x: Array) -> Array: ...


class Learned:
    """An estimator of scikit-learn on standardised features. `logs`: it fits logarithms, for times of any size."""

    def __init__(self, make: Callable[[], _Estimator], *, logs: bool = False) -> None:
        self._make = make
        self._logs = logs

    def fit(self, configurations: Sequence[Configuration], y: Array) -> None:
        self._features = _Features(configurations)
        self._model: _Estimator = make_pipeline(StandardScaler(), self._make())
        self._model.fit(self._features.of(configurations), np.log(y) if self._logs else y)

    def predict(self, configurations: Sequence[Configuration]) -> Array:
        found = self._model.predict(self._features.of(configurations))
        return np.exp(found) if self._logs else found


class Smooth:
    """Gaussian process over the logarithms of counts and sizes.

    It predicts between the configurations tried, and a little beyond. Its cost grows with the cube of the samples, so
    that only the first ones count, which are the newest.
    """

    def __init__(self, *, logs: bool = False) -> None:
        self._logs = logs

    def fit(self, configurations: Sequence[Configuration], y: Array) -> None:
        some = configurations[:MAX_SMOOTH]
        self._features = _Features(some)
        rows, values = self._columns(some), np.log(y[: len(some)]) if self._logs else y[: len(some)]
        self._middle, self._spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-9)
        tells = rows.std(axis=0) > 0
        self._tells = tells if tells.any() else np.ones(rows.shape[1], bool)
        lengths = np.full(int(self._tells.sum()), 2.0)
        bends = ConstantKernel(1.0, (1e-2, 1e2)) * Matern(lengths, (0.2, 50.0), nu=2.5)
        kernel = bends + WhiteKernel(1e-2, (1e-5, 1.0))
        self._model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a bound that is reached is as good as what is beyond
            self._model.fit(self._scaled(rows), values)

    def predict(self, configurations: Sequence[Configuration]) -> Array:
        found: Array = self._model.predict(self._scaled(self._columns(configurations)))
        return np.exp(found) if self._logs else found

    def _columns(self, configurations: Sequence[Configuration]) -> Array:
        columns = self._features.of(configurations)
        columns[:, :SIZES] = np.log1p(columns[:, :SIZES])
        return columns

    def _scaled(self, rows: Array) -> Array:
        found: Array = ((rows - self._middle) / self._spread)[:, self._tells]
        return found


class Queueing:
    """M/M/1 queue: a job takes S / (1 - rho) seconds.

    S is its time alone, shared among its workers. rho grows with the jobs beside it, up to the busiest that was seen.
    """

    def fit(self, configurations: Sequence[Configuration], y: Array) -> None:
        self._most = max([each.beside for each in configurations] + [1e-9])
        tries = []
        for busiest in np.linspace(0.0, _BUSIEST, 20):
            design = _service_columns(configurations) / (1 - self._rho(configurations, float(busiest)))[:, None]
            weights, left = nnls(design, y)
            tries.append((left, float(busiest), weights))
        _, self._busiest, self._weights = min(tries, key=lambda each: each[0])

    def predict(self, configurations: Sequence[Configuration]) -> Array:
        service: Array = _service_columns(configurations) @ self._weights
        return service / (1 - self._rho(configurations, self._busiest))

    def _rho(self, configurations: Sequence[Configuration], busiest: float) -> Array:
        beside = np.array([each.beside for each in configurations])
        return np.minimum(_BUSIEST, busiest * beside / self._most)


def _service_columns(configurations: Sequence[Configuration]) -> Array:
    work = [max(1, each.epochs) * max(1, each.input_size) for each in configurations]
    return np.array([[1.0, amount / each.gpus] for each, amount in zip(configurations, work, strict=True)])


class GoodputStepTime:
    """Step-time model of goodput, without overlap.

    Its terms are the start-up and, for each step, the computation of the local batch and the synchronisation of several
    workers. There is one set of weights per family and type.
    """

    def fit(self, configurations: Sequence[Configuration], y: Array) -> None:
        self._weights: dict[tuple[str, str], Array] = {}
        groups: dict[tuple[str, str], list[int]] = {}
        for index, each in enumerate(configurations):
            groups.setdefault((each.family, each.gpu_type), []).append(index)
        for key, rows in groups.items():
            columns = _step_columns([configurations[row] for row in rows])
            columns /= y[rows][:, None]  # each second of a short job counts as much as many of a long one
            scale = np.maximum(columns.max(axis=0), 1e-12)
            self._weights[key] = nnls(columns / scale, np.ones(len(rows)))[0] / scale
        self._mean = float(y.mean())

    def predict(self, configurations: Sequence[Configuration]) -> Array:
        columns = _step_columns(configurations)
        found = []
        for row, each in zip(columns, configurations, strict=True):
            weights = self._weights.get((each.family, each.gpu_type))
            found.append(float(row @ weights) if weights is not None else self._mean)
        return np.array(found)


def _step_columns(configurations: Sequence[Configuration]) -> Array:
    rows = []
    for each in configurations:
        steps = max(1, each.epochs) * max(1.0, each.input_size / max(1, each.batch_size))
        several = float(each.gpus > 1)
        crowd = 1 + each.beside
        passes = steps * each.batch_size / each.gpus
        rows.append([1.0, steps * crowd, passes * crowd, steps * several * crowd, steps * several * (each.gpus - 2)])
    return np.array(rows)


def _forest() -> _Estimator:
    found: _Estimator = RandomForestRegressor(_TREES, random_state=0)
    return found


def _boosting() -> _Estimator:
    found: _Estimator = GradientBoostingRegressor(random_state=0)
    return found


def _line() -> _Estimator:
    found: _Estimator = LinearRegression()
    return found


TIME_MODELS: Mapping[str, Callable[[], Regressor]] = {
    "random forest": lambda: Learned(_forest, logs=True),
    "boosting": lambda: Learned(_boosting, logs=True),
    "linear": lambda: Learned(_line),
    "queueing": Queueing,
    "goodput": GoodputStepTime,
    "gaussian process": lambda: Smooth(logs=True),
}
METRIC_MODELS: Mapping[str, Callable[[], Regressor]] = {
    "random forest": lambda: Learned(_forest),
    "boosting": lambda: Learned(_boosting),
    "linear": lambda: Learned(_line),
    "gaussian process": Smooth,
}


class Score(NamedTuple):
    """Accuracy of a model on samples that it has not seen."""

    model: str
    r2: float
    error: float
    """Median of the absolute errors."""


class Predicted(NamedTuple):
    value: float
    low: float
    high: float


class Predictor:
    """The model with the largest R^2 on configurations that it has not seen.

    Intervals are split conformal: as wide as nine of ten errors in cross-validation. Its folds are over whole
    configurations for an untried configuration, else over runs.
    """

    def __init__(
        self,
        models: Mapping[str, Callable[[], Regressor]],
        configurations: Sequence[Configuration],
        y: Array,
        family: str,
        *,
        relative: bool,
    ) -> None:
        """Fit all models. Scores count only jobs of `family`, the one asked for, if it has at least FOLDS.

        `relative`: errors are factors, as for times; else differences.
        """
        of_family = np.array([each.family == family for each in configurations])
        counted = of_family if of_family.sum() >= FOLDS else np.ones(len(y), bool)
        folds = point_folds(configurations)
        unseen = {name: out_of_fold(make, configurations, y, folds)[counted] for name, make in models.items()}
        actual = y[counted]
        self.scores = sorted(
            (
                Score(name, r2(actual, found), float(np.median(np.abs(actual - found))))
                for name, found in unseen.items()
            ),
            key=lambda score: -score.r2,
        )
        self.model = self.scores[0].model
        self._relative = relative
        self._points = {each.point for each in configurations}
        self._untried = self._half(actual, unseen[self.model])
        runs = run_folds(len(y))
        repeated = counted & _is_repeated(configurations, runs)
        self._tried = self._untried
        if repeated.sum() >= _MIN_REPEATED:
            found = out_of_fold(models[self.model], configurations, y, runs)
            self._tried = self._half(y[repeated], found[repeated])
        self._fitted = models[self.model]()
        self._fitted.fit(configurations, y)

    def _half(self, actual: Array, found: Array) -> float:
        off = np.log(actual / np.maximum(found, 1e-9)) if self._relative else actual - found
        half = held_by_nine_of_ten(np.abs(off).tolist())
        return min(half, math.log(_MAX_FACTOR)) if self._relative else half

    def predict(self, configurations: Sequence[Configuration]) -> list[Predicted]:
        halves = np.array([self._tried if each.point in self._points else self._untried for each in configurations])
        found = self._fitted.predict(configurations)
        if self._relative:
            found = np.maximum(found, 0.0)
            low, high = found * np.exp(-halves), found * np.exp(halves)
        else:
            low, high = found - halves, found + halves
        return [Predicted(*each) for each in zip(found.tolist(), low.tolist(), high.tolist(), strict=True)]


def point_folds(configurations: Sequence[Configuration]) -> Folds:
    """Return folds with all runs of a point on one side; with only one point, folds by runs.

    A model that has seen one run of a point knows the others.
    """
    points = {point: at for at, point in enumerate(dict.fromkeys(each.point for each in configurations))}
    if len(points) == 1:
        return run_folds(len(configurations))
    groups = [points[each.point] for each in configurations]
    return list(GroupKFold(min(FOLDS, len(points)), shuffle=True, random_state=0).split(groups, groups=groups))


def run_folds(runs: int) -> Folds:
    return list(KFold(min(FOLDS, runs), shuffle=True, random_state=0).split(np.empty((runs, 1))))


def _is_repeated(configurations: Sequence[Configuration], folds: Folds) -> NDArray[np.bool_]:
    """Return, for each sample, whether another run of its point is on the side that is seen."""
    found = np.zeros(len(configurations), bool)
    for seen, unseen in folds:
        known = {configurations[index].point for index in seen}
        found[unseen] = [configurations[index].point in known for index in unseen]
    return found


def out_of_fold(
    make: Callable[[], Regressor], configurations: Sequence[Configuration], y: Array, folds: Folds
) -> Array:
    """Predict each sample by a model that has not seen it."""
    found = np.empty(len(y))
    for seen, unseen in folds:
        model = make()
        model.fit([configurations[index] for index in seen], y[seen])
        found[unseen] = model.predict([configurations[index] for index in unseen])
    return found


def r2(actual: Array, predicted: Array) -> float:
    """Return R^2. 1: each is predicted exactly; 0: no better than their mean."""
    total = float(((actual - actual.mean()) ** 2).sum())
    left = float(((actual - predicted) ** 2).sum())
    return 1 - left / total if total > 0 else float(left == 0)
