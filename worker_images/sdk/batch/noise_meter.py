"""Meter of the gradient noise while a job trains.

It takes norms before and after averaging, seldom enough to stay cheap.
"""

from __future__ import annotations

import math
import time
from typing import Any, Iterable, Sequence

from schedulearn.metrics.model.noise_scale import NoiseScale

BUDGET = 0.005  # share of the training time that measuring may take
LONGEST = 30  # maximum steps between measurements
ENOUGH = 7.9  # minimum measurements of equal weight in the average, before it is used
LARGEST = 1e6  # maximum of phi over the first batch: beyond it, every batch is as good as any


class NoiseMeter:
    """Meter of the gradient noise.

    `begin`, called before each step, decides whether it is measured. Then `local` gets this worker's gradients, `total`
    the averaged ones, and `finish` the sums over all workers. A single worker pairs the gradients of two steps.

    Gradients are arrays of the framework. A subclass implements `norms` and `copies` for them."""

    def __init__(self, init_batch: int) -> None:
        self.noise = NoiseScale(init_batch)
        self.measuring = False
        self.off = False
        """Whether gradients can't be read: the step is recorded, and is replayed without this code."""
        self.cost = 0.0
        """Seconds that this worker spent measuring the last step that was measured to its end."""
        self.local_sqr = 0.0
        """|g|^2 of this worker in this step, as far as it was measured."""
        self.total_sqr = 0.0
        self.spent = 0.0
        """Seconds spent measuring this step so far."""
        self._every = 1
        self._wait = 0
        self._steps = 0
        """Optimizer steps since the last one in the average."""
        self._previous: tuple[int, float, Sequence[Any]] | None = None

    def norms(self, gradients: Sequence[Any]) -> float:
        """Return the sum of squares over all gradients."""
        raise NotImplementedError

    def copies(self, gradients: Sequence[Any]) -> Sequence[Any]:
        """Return copies that stay as they are when the gradients are written to."""
        raise NotImplementedError

    @property
    def phi(self) -> float | None:
        """Noise scale in samples; None until enough was measured."""
        if self.noise.samples < ENOUGH:
            return None
        phi = self.noise.phi
        return LARGEST * self.noise.init_batch if phi is None else min(phi, LARGEST * self.noise.init_batch)

    @property
    def sure_phi(self) -> float | None:
        """Lower bound of phi, in samples; None while the measurements can't tell."""
        if self.noise.samples < ENOUGH:
            return None
        return min(self.noise.sure_phi, LARGEST * self.noise.init_batch) or None

    @property
    def share(self) -> float:
        """Share of the newest gradient in the optimizer's second moment.

        0: the optimizer has none by which the noise is measured."""
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
        """Measure this worker's gradient, or a part of it; each part once."""
        began = time.perf_counter()
        self.local_sqr += self.norms(list(gradients))
        self.spent += time.perf_counter() - began

    def total(self, gradients: Iterable[Any], batch: int, workers: int) -> None:
        """Measure the averaged gradients, of `batch` samples in all."""
        began = time.perf_counter()
        averaged = list(gradients)
        self.total_sqr = float(self.norms(averaged))
        if workers == 1:
            self._pair(self.copies(averaged), batch)
        self.cost = self.spent + time.perf_counter() - began

    def finish(self, local_sum: float, total_sqr: float, measured: float, workers: int, batch: int) -> None:
        """Add a step's measurement to the average.

        `local_sum`: sum of |g|^2 over the `measured` workers. `total_sqr`: |g|^2 of the averaged gradient, the same on
        all workers."""
        if workers > 1 and round(measured) == workers:
            self._took(self.noise.update(local_sum / workers, total_sqr, workers, batch, self._steps))

    def pace(self, cost: float, step: float, workers: int) -> None:
        """Set how long to pause. `cost` and `step`: seconds, the same on all workers."""
        if self.measuring:
            self._every = max(1, min(LONGEST, math.ceil(cost / (BUDGET * max(step, 1e-9)))))
            self._wait = self._every if workers > 1 or self._every == 1 else 2 * self._every  # a pair is two steps
        self._wait -= 1

    def forget_pair(self) -> None:
        """Forget the first half of a pair.

        Called before the batch or the weights change other than by a step."""
        self._previous = None

    def restart(self) -> None:
        """Start over with other workers, from the next step on.

        All of them measure that step, and count from there."""
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
