"""What is measured in each step, and told to the other workers with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from schedulearn.worker.noise_meter import NoiseMeter
from schedulearn.worker.order import Pass
from schedulearn.worker.workers import Finish

if TYPE_CHECKING:
    from schedulearn.worker.run import Run


class Instruments:
    """Of one run. What is specific to a framework calls `tell` once this worker's gradients are computed, sets
    `sync_s`, and gives `meter` the gradients before and after averaging."""

    def __init__(self, run: Run, meter: NoiseMeter) -> None:
        self.meter = meter
        self.sync_s: float | None = 0.0
        """Seconds of this step spent waiting for other workers; None: not measured in this one."""
        self.step_s = 0.0
        """Seconds of the step's passes before the last one."""
        self._run = run
        self._workers = run.workers
        self.this: Pass | None = None
        self._sums: Finish | None = None
        self._began = 0.0

    def regroup(self) -> None:
        """Between two steps, when the run has got other workers."""
        self._workers = self._run.workers
        self.meter.forget_pair()

    def begin_pass(self, this: Pass) -> None:
        self.this = this
        self._began = time.perf_counter()
        if this.first:
            self.step_s = self.sync_s = 0.0
            self.meter.begin()

    def tell(self) -> None:
        """Starts the one small message that goes with each step, if there is anybody to tell."""
        values = [*self.message(), self.meter.local_sqr]
        self._sums = self._workers.sum(values) if self._workers.size > 1 else lambda: values

    def message(self) -> list[float]:
        """All of it but |g|^2 of this worker, which comes last."""
        spent = time.perf_counter() - self._began
        return [*self._run.flags(), float(self.meter.measuring), self.meter.cost, spent]

    def finish_step(self) -> list[float]:
        """The sums of what the workers told each other in this step, by `Run.flags`."""
        if self._sums is None:  # the script made no step
            return [0.0, 0.0, 0.0]
        sums, self._sums = self._sums(), None
        size = self._workers.size
        *flags, measured, cost, step, local_sqr = sums
        if self.meter.measuring and self.this is not None:
            self.meter.finish(local_sqr, measured, size, self.this.samples)
        # Others have told what the measurement before this one cost; alone, a pair's second half costs far more.
        self.meter.pace(cost / size if size > 1 else self.meter.cost, step / size, size)
        return flags
