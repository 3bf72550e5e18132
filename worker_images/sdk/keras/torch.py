"""Gradient averaging for Keras jobs on PyTorch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from schedulearn.worker.instruments import Instruments
from schedulearn.worker.torch.noise import TorchNoiseMeter
from schedulearn.worker.torch.workers import find_workers
from schedulearn.worker.workers import HorovodWorkers

if TYPE_CHECKING:
    from schedulearn.worker.run import Run

__all__ = ["Averaging", "find_workers"]


class Averaging:
    def __init__(self, run: Run) -> None:
        self._workers = run.workers
        self._weight = 1.0
        self.instruments = Instruments(run, TorchNoiseMeter(run.batch.bounds.init_batch, None))
        self._measured = run.env is not None

    def begin(self, weight: float) -> None:
        """Begin a step; this worker's gradient is multiplied by `weight`."""
        self._weight = weight

    def end(self) -> None:
        """End the step."""

    def average(self, gradients: list[Any]) -> list[Any]:
        present = [g * self._weight if self._weight != 1.0 else g for g in gradients if g is not None]
        meter = self.instruments.meter
        measuring = self._measured and meter.measuring
        if measuring:
            meter.local(present)
        if self._measured:
            self.instruments.tell()
        began = time.perf_counter()
        if isinstance(self._workers, HorovodWorkers) and self._workers.size > 1:
            hvd = self._workers.hvd
            present = hvd.grouped_allreduce(present, op=hvd.Average, name="schedulearn.gradients")
        self.instruments.sync_s = time.perf_counter() - began
        if measuring and self.instruments.this is not None:
            meter.total(present, self.instruments.this.samples, self._workers.size)
        left = iter(present)
        return [None if g is None else next(left) for g in gradients]
