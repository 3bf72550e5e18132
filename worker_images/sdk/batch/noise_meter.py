"""Measures the gradient noise while a job trains: norms before and after averaging, as seldom as keeps it cheap."""

from __future__ import annotations

import math
import time
from typing import Any, Iterable, Sequence

from schedulearn.metrics.model.noise_scale import NoiseScale

BUDGET = 0.005  # share of the training time that measuring may take
LONGEST = 30  # steps between measurements, at most
ENOUGH = 7.9  # measurements of equal weight that the average must stand for, before it is believed
LARGEST = 1e6  # phi over the first batch: beyond, every batch is as good as any


class NoiseMeter:
    """`begin` before each step says whether it is measured; then `local` gets this worker's gradients, `total` the
    averaged ones, and `finish` the sums over all workers. A single worker pairs the gradients of two steps.

    Gradients are arrays of the framework, of which a subclass knows how to take `norms` and `copies`."""

    def __init__(self, init_batch: int) -> None:
        self.noise = NoiseScale(init_batch)
        self.measuring = False
        self.off = False
        """Gradients can't be looked at: the step is recorded, and runs again without us."""
        self.cost = 0.0
        """Seconds that this worker spent on the last step that was measured to its end."""
        self.local_sqr = 0.0
        """|g|^2 of this worker in this step, as far as it was measured."""
        self.total_sqr = 0.0
        self.spent = 0.0
        """Seconds of this step so far."""
        self._every = 1
        self._wait = 0
        self._steps = 0
        """Optimizer steps since the last one that the average has."""
        self._previous: tuple[int, float, Sequence[Any]] | None = None

    def norms(self, gradients: Sequence[Any]) -> float:
        """Sum of squares over all."""
        raise NotImplementedError

    def copies(self, gradients: Sequence[Any]) -> Sequence[Any]:
        """That stay as they are when the gradients are written to."""
        raise NotImplementedError

    @property
    def phi(self) -> float | None:
        """Samples; None until enough was measured."""
        if self.noise.samples < ENOUGH:
            return None
        phi = self.noise.phi
        return LARGEST * self.noise.init_batch if phi is None else min(phi, LARGEST * self.noise.init_batch)

    @property
    def sure_phi(self) -> float | None:
        """Samples: phi is surely as large as that; None while the measurements can't tell."""
        if self.noise.samples < ENOUGH:
            return None
        return min(self.noise.sure_phi, LARGEST * self.noise.init_batch) or None

    @property
    def share(self) -> float:
        """Of the newest gradient in the optimizer's second moment, if it keeps one by which the noise is measured."""
        return 0.0

    @property
    def due(self) -> bool:
        """Whether the next step is measured; the same on all workers."""
        return self._wait <= 0 or self._previous is not None

    def begin(self) -> None:
        self._steps += 1
        self.measuring = self.due and not self.off
        self.local_sqr = self.total_sqr = self.spent = 0.0

    def local(self, gradients: Iterable[Any]) -> None:
        """May be called for parts of the gradient, each once."""
        began = time.perf_counter()
        self.local_sqr += self.norms(list(gradients))
        self.spent += time.perf_counter() - began

    def total(self, gradients: Iterable[Any], batch: int, workers: int) -> None:
        """The averaged ones, of `batch` samples in all."""
        began = time.perf_counter()
        averaged = list(gradients)
        self.total_sqr = float(self.norms(averaged))
        if workers == 1:
            self._pair(self.copies(averaged), batch)
        self.cost = self.spent + time.perf_counter() - began

    def finish(self, local_sum: float, total_sqr: float, measured: float, workers: int, batch: int) -> None:
        """`local_sum` over the `measured` workers; `total_sqr` of the averaged gradient, which is the same for all."""
        if workers > 1 and round(measured) == workers:
            self._took(self.noise.update(local_sum / workers, total_sqr, workers, batch, self._steps))

    def pace(self, cost: float, step: float, workers: int) -> None:
        """`cost` and `step` in seconds, the same on all workers: how long to pause."""
        if self.measuring:
            self._every = max(1, min(LONGEST, math.ceil(cost / (BUDGET * max(step, 1e-9)))))
            self._wait = self._every if workers > 1 or self._every == 1 else 2 * self._every  # a pair is two steps
        self._wait -= 1

    def forget_pair(self) -> None:
        """Before the batch or the weights change in another way than by a step."""
        self._previous = None

    def restart(self) -> None:
        """Other workers train together from the next step on. All of them measure it, and count from there."""
        self.forget_pair()
        self._every, self._wait, self._steps = 1, 0, 0

    def _took(self, taken: bool) -> None:
        if taken:
            self._steps = 0

    def _pair(self, gradients: Sequence[Any], batch: int) -> None:
        previous, self._previous = self._previous, (batch, self.total_sqr, gradients)
        if previous is not None and previous[0] == batch and len(previous[2]) == len(gradients):
            both = [(a + b) / 2 for a, b in zip(previous[2], gradients)]
            both_sqr = float(self.norms(both))
            self._took(self.noise.update_pair(previous[1], self.total_sqr, both_sqr, batch, self._steps))
            if self._every > 1:
                self._previous = None  # the next pair comes later
