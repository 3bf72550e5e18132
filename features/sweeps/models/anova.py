"""Analysis of variance of an experiment, and means with intervals. Pure.

A factor with few levels is a category; one of numbers with many levels is a line. Sums of squares are of type II: a
term is compared with the model of all terms that don't contain it. Lost runs therefore distort no other factor's share.
Effects of factors with two levels are the weights of ordinary least squares, coded -1 and 1. For complete designs, they
are those of 2^k r designs. Where runs are lost, they have no bias.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

CATEGORIES = 10  # maximum levels of a factor of numbers; with more it is a line
_MAX_INTERACTING = 8  # factors; with more there are no interactions
_MAX_COLUMNS = 120  # of the model: it is solved once for each term

Level = bool | int | float | str
Matrix = NDArray[np.float64]


class Trial(NamedTuple):
    """One run: the level of each factor, and what was measured."""

    levels: Mapping[str, Level]
    response: float


class Cell(NamedTuple):
    """All runs with the same levels."""

    levels: Mapping[str, Level]
    runs: int
    mean: float
    low: float | None
    """This and `high`: the interval of the mean; None: one run shows no spread."""
    high: float | None


class Term(NamedTuple):
    """A factor, or an interaction of several."""

    factors: tuple[str, ...]
    df: int
    sum_of_squares: float
    share: float
    """Share of all variation, 0 to 1."""
    f: float | None
    p: float | None
    """Probability of so large a share by chance alone; None: nothing is left to compare it with."""
    effect: float | None
    """With two levels per factor: half the difference that it makes; None otherwise, or if the runs can't tell it."""
    effect_low: float | None
    effect_high: float | None


class Analysis(NamedTuple):
    runs: int
    mean: float
    total: float
    """Sum of squares around the mean."""
    error: float
    error_df: int
    r2: float
    """Share of the variation that the terms explain."""
    confidence: float
    cells: list[Cell]
    terms: list[Term]


def analyze(trials: Sequence[Trial], factors: Sequence[str], confidence: float = 0.95) -> Analysis:
    """Analyse the trials. Raises ValueError if there is too little to compare."""
    if len(trials) < 2:
        raise ValueError(f"an analysis needs at least two finished runs, and there are {len(trials)}")
    varied = [name for name in factors if len({trial.levels[name] for trial in trials}) > 1]
    if not varied:
        raise ValueError("all finished runs have the same levels: there is nothing to compare")
    y = np.array([trial.response for trial in trials], float)
    model = _Model(trials, varied, y)
    mean, total = float(y.mean()), float(((y - y.mean()) ** 2).sum())
    error, rank = model.residual(model.terms)
    error_df = len(trials) - rank
    error = error if error > 1e-12 * max(total, 1e-300) else 0.0
    noise = error / error_df if error_df else None
    return Analysis(
        runs=len(trials),
        mean=mean,
        total=total,
        error=error,
        error_df=error_df,
        r2=1 - error / total if total else 1.0,
        confidence=confidence,
        cells=_cells(trials, factors, confidence),
        terms=[model.term(names, noise, error_df, total, confidence) for names in model.terms],
    )


def _cells(trials: Sequence[Trial], factors: Sequence[str], confidence: float) -> list[Cell]:
    """Return a cell for each combination of levels, sorted by these."""
    found: dict[tuple[Level, ...], list[float]] = {}
    for trial in trials:
        found.setdefault(tuple(trial.levels[name] for name in factors), []).append(trial.response)
    cells = []
    for levels in sorted(found, key=lambda each: [_sort_key(level) for level in each]):
        values = found[levels]
        mean, half = math.fsum(values) / len(values), None
        if len(values) > 1:
            spread = float(np.std(values, ddof=1)) / math.sqrt(len(values))
            half = _student(confidence, len(values) - 1) * spread
        low, high = (None, None) if half is None else (mean - half, mean + half)
        cells.append(Cell(dict(zip(factors, levels, strict=True)), len(values), mean, low, high))
    return cells


def _student(confidence: float, df: int) -> float:
    """Half the width of a two-sided interval, in standard errors."""
    return float(special.stdtrit(df, (1 + confidence) / 2))


def _sort_key(level: Level) -> tuple[bool, float, str]:
    return (True, 0.0, level) if isinstance(level, str) else (False, float(level), "")


class _Model:
    """Columns of the linear model, by term."""

    def __init__(self, trials: Sequence[Trial], factors: Sequence[str], y: Matrix) -> None:
        self._y = y
        self._ones = np.ones((len(y), 1))
        self._levels = {name: _levels(trials, name) for name in factors}
        self._columns: dict[tuple[str, ...], Matrix] = {
            (name,): _coded([trial.levels[name] for trial in trials], self._levels[name]) for name in factors
        }
        order = len(factors) if self._two_levels else 2
        self.terms = [*self._columns]
        if len(factors) <= _MAX_INTERACTING:
            for size in range(2, order + 1):
                self._add_interactions(factors, size)
        self._design = np.hstack([self._ones, *self._columns.values()])
        self._inverse: Matrix = np.linalg.pinv(self._design)

    @property
    def _two_levels(self) -> bool:
        return all(len(levels) == 2 for levels in self._levels.values())

    def _add_interactions(self, factors: Sequence[str], size: int) -> None:
        """Add all interactions of this order, or none: those left out would count as noise unevenly."""
        found = {}
        for names in itertools.combinations(factors, size):
            columns = self._ones
            for name in names:
                columns = np.einsum("ij,ik->ijk", columns, self._columns[(name,)]).reshape(len(self._y), -1)
            found[names] = columns
        width = 1 + sum(columns.shape[1] for columns in (*self._columns.values(), *found.values()))
        if width <= _MAX_COLUMNS and width < len(self._y) and len(self.terms[-1]) == size - 1:
            self._columns.update(found)
            self.terms += found

    def residual(self, terms: Sequence[tuple[str, ...]]) -> tuple[float, int]:
        """Return the sum of squares that these terms leave, and the rank of their columns."""
        columns = np.hstack([self._ones, *(self._columns[names] for names in terms)])
        solution, _, rank, _ = np.linalg.lstsq(columns, self._y, rcond=None)
        return float(((self._y - columns @ solution) ** 2).sum()), int(rank)

    def term(self, names: tuple[str, ...], noise: float | None, error_df: int, total: float, confidence: float) -> Term:
        others = [other for other in self.terms if not set(names) <= set(other)]
        without, rank_without = self.residual(others)
        left, rank = self.residual([*others, names])
        df, squares = rank - rank_without, max(0.0, without - left)
        f = p = None
        if noise is not None and df:
            f = squares / df / noise if noise else math.inf
            p = float(special.fdtrc(df, error_df, f))
        effect, low, high = self._effect(names, noise, error_df, confidence)
        # JSON has no infinite F. Without any noise, p alone shows the result.
        f = f if f is not None and math.isfinite(f) else None
        return Term(names, df, squares, squares / total if total else 0.0, f, p, effect, low, high)

    def _effect(
        self, names: tuple[str, ...], noise: float | None, error_df: int, confidence: float
    ) -> tuple[float | None, float | None, float | None]:
        """Return the weight of the term's column in the whole model, and its interval: variance noise (X'X)^-1."""
        if not self._two_levels:
            return None, None, None
        at = 1 + self.terms.index(names)
        weights = self._inverse[at]
        if abs(float(weights @ self._design[:, at]) - 1) > 1e-9:
            return None, None, None  # a sum of other columns: the runs don't tell them apart
        effect = float(weights @ self._y)
        if noise is None:
            return effect, None, None
        half = _student(confidence, error_df) * math.sqrt(noise * float(weights @ weights))
        return effect, effect - half, effect + half


def _levels(trials: Sequence[Trial], name: str) -> list[Level]:
    return sorted({trial.levels[name] for trial in trials}, key=_sort_key)


def _coded(values: Sequence[Level], levels: Sequence[Level]) -> Matrix:
    """Return a column for each level but the first one, which is -1 in all of them; one column for many numbers."""
    numbers = [float(value) for value in values if not isinstance(value, str)]
    if len(levels) > CATEGORIES and len(numbers) == len(values):
        line = np.array(numbers)
        coded: Matrix = ((line - line.mean()) / line.std()).reshape(-1, 1)
        return coded
    codes = np.vstack([np.full(len(levels) - 1, -1.0), np.eye(len(levels) - 1)])
    found: Matrix = codes[[levels.index(value) for value in values]]
    return found
