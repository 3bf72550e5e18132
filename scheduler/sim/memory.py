"""What was measured of a job, or of all jobs of its family, and what is believed by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, fit

Shape = tuple[str, int, int, int]  # type, nodes, GPUs, samples a replica by steps of SAME_BATCH
SAME_BATCH = 1.05


class Pass(NamedTuple):
    """Measured: samples a replica, and seconds of a pass without synchronising and with it."""

    local: int
    grad: float
    whole: float


@dataclass
class Memory:
    """What is known about a kind of job: its own profile, or that of its whole family."""

    shapes: dict[Shape, Pass] = field(default_factory=dict)
    """What was measured, newest last; as many as `limit`."""
    lengths: list[float] = field(default_factory=list)
    """Total steps of jobs that ended."""
    limit: int = 40
    largest: int = 0
    """GPUs of the largest shape seen."""
    _models: dict[str, StepTimeModel] | None = None
    _before: dict[str, StepTimeModel] = field(default_factory=dict)
    _goodputs: dict[tuple[float, BatchBounds], Goodput] = field(default_factory=dict)

    def learn(self, shape: Shape, times: Pass) -> None:
        if self.shapes.get(shape) != times:
            self._models = None
        self.shapes.pop(shape, None)
        self.shapes[shape] = times
        if len(self.shapes) > self.limit:
            del self.shapes[next(iter(self.shapes))]
        self.largest = max(gpus for _, _, gpus, _ in self.shapes)

    def models(self) -> dict[str, StepTimeModel]:
        """GPU type -> model fitted to what was seen on it; the type seen first comes first."""
        if self._models is None:
            by_type: dict[str, list[tuple[Shape, Pass]]] = {}
            for shape, times in self.shapes.items():
                by_type.setdefault(shape[0], []).append((shape, times))
            self._models = {t: _fit(tuple(sorted(seen)), self._before.get(t)) for t, seen in by_type.items()}
            if list(self._models.items()) != list(self._before.items()):
                self._goodputs = {}
            self._before = self._models
        return self._models

    def goodput(self, phi: float, bounds: BatchBounds, speeds: Mapping[str, float]) -> Goodput:
        """By what is known now. Jobs at one point of their training share it, and the tables that it keeps."""
        models = self.models()
        found = self._goodputs.get((phi, bounds))
        if found is None:
            found = self._goodputs[phi, bounds] = Goodput(models, phi, bounds, speeds)
        return found


@lru_cache(maxsize=20000)
def _fit(seen: tuple[tuple[Shape, Pass], ...], before: StepTimeModel | None) -> StepTimeModel:
    rows = ((nodes, gpus, *measured) for (_, nodes, gpus, _), measured in seen)
    columns = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return fit(StepTimes(*columns), before)
