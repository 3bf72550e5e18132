"""Measurements of a job or its family, and models fitted to them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.residuals import Residuals, residuals_of
from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, fit

Shape = tuple[str, int, int, int]  # type, nodes, GPUs, samples per replica rounded by `alike`
SAME_BATCH = 1.05


@lru_cache(maxsize=10_000)
def alike(samples: int) -> int:
    """Round `samples` to a power of SAME_BATCH: batches within a few percent of each other count as equal."""
    return max(1, round(SAME_BATCH ** round(math.log(max(1, samples)) / math.log(SAME_BATCH))))


class MeasuredPass(NamedTuple):
    """Measurement: samples per replica, and seconds of a micro-step without synchronising and with it."""

    local: int
    grad: float
    whole: float


class Fit(NamedTuple):
    model: StepTimeModel
    residuals: Residuals


@dataclass
class Memory:
    """Profile of a job, or of its whole family."""

    shapes: dict[Shape, MeasuredPass] = field(default_factory=dict)
    """Measurements, newest last; at most `limit`."""
    lengths: list[float] = field(default_factory=list)
    """Total steps of jobs that ended."""
    limit: int = 40
    largest: int = 0
    """GPUs of the largest shape seen."""
    _fits: dict[str, Fit] | None = None
    _before: dict[str, Fit] = field(default_factory=dict)
    _goodputs: dict[tuple[float, BatchBounds], Goodput] = field(default_factory=dict)

    def learn(self, shape: Shape, times: MeasuredPass) -> None:
        if self.shapes.get(shape) != times:
            self._fits = None
        self.shapes.pop(shape, None)
        self.shapes[shape] = times
        if len(self.shapes) > self.limit:
            del self.shapes[next(iter(self.shapes))]
        self.largest = max(gpus for _, _, gpus, _ in self.shapes)

    def fits(self) -> dict[str, Fit]:
        """Return GPU type -> fit of the measurements on it. The type seen first comes first."""
        if self._fits is None:
            by_type: dict[str, list[tuple[Shape, MeasuredPass]]] = {}
            for shape, times in self.shapes.items():
                by_type.setdefault(shape[0], []).append((shape, times))
            before = {gpu_type: fitted.model for gpu_type, fitted in self._before.items()}
            self._fits = {t: _fit(tuple(sorted(seen)), before.get(t)) for t, seen in by_type.items()}
            if list(self._fits.items()) != list(self._before.items()):
                self._goodputs = {}
            self._before = self._fits
        return self._fits

    def goodput(
        self, phi: float, bounds: BatchBounds, speeds: Mapping[str, float], least_efficiency: float = 0.0
    ) -> Goodput:
        """Return the goodput by current measurements. Jobs at one point of their training share it and its tables."""
        fits = self.fits()
        found = self._goodputs.get((phi, bounds))
        if found is None:
            models = {gpu_type: fitted.model for gpu_type, fitted in fits.items()}
            residuals = {gpu_type: fitted.residuals for gpu_type, fitted in fits.items()}
            found = self._goodputs[phi, bounds] = Goodput(
                models, phi, bounds, speeds, min_efficiency=least_efficiency, residuals=residuals
            )
        return found


@lru_cache(maxsize=20000)
def _fit(seen: tuple[tuple[Shape, MeasuredPass], ...], before: StepTimeModel | None) -> Fit:
    rows = ((nodes, gpus, *measured) for (_, nodes, gpus, _), measured in seen)
    columns = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    times = StepTimes(*columns)
    model = fit(times, before)
    return Fit(model, residuals_of(model, times))
