"""Batch of a job, chosen by goodput.

The choice is made for the GPUs that the job has, within the script's bounds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from schedulearn.metrics.model.batch_rule import efficient_batch, next_batches
from schedulearn.metrics.model.goodput import SAFE_EFFICIENCY, BatchBounds, Goodput
from schedulearn.metrics.model.step_time import StepTimeModel


class Batch:
    """Current batch of a job, and `why` it was chosen.

    `total`: samples of a step over all workers. `atomic`: maximum samples of a worker in one micro-step.
    `accumulation`: micro-steps before the one that updates."""

    def __init__(self, bounds: BatchBounds, num_nodes: int, workers: int) -> None:
        self.bounds = bounds
        self.num_nodes = num_nodes
        self.workers = workers
        self.chosen = self.total = self.atomic = self.accumulation = 0
        self.why = ""
        first = "the initial batch" if self.may_change else "fixed: no larger batch is allowed"
        self.choose(bounds.init_batch, first)

    @property
    def may_change(self) -> bool:
        return self.bounds.max_batch > self.bounds.init_batch

    @property
    def shape(self) -> tuple[int, int, int | None]:
        """(samples of a step, micro-steps of a step, samples that fit in a micro-step), for `order.steps`."""
        return self.total, self.accumulation + 1, self.bounds.max_local if self.bounds.accumulate else None

    def choose(self, total: int, why: str) -> None:
        """Set the batch to `total` samples per step, or to the nearest that these workers can do.

        `total` is remembered for another number of workers."""
        bounds = self.bounds
        self.chosen, self.why = max(bounds.init_batch, min(total, bounds.max_batch)), why
        self.total, self.atomic, self.accumulation = bounds.split(self.chosen, self.workers)

    def fix(self, why: str) -> None:
        """Keep the first batch from now on."""
        self.bounds = replace(self.bounds, max_batch=self.bounds.init_batch)
        self.choose(self.bounds.init_batch, why)

    def resize(self, workers: int) -> None:
        """Keep the batch, on another number of workers."""
        self.workers = workers
        self.choose(self.chosen, self.why)

    def best(self, answer: dict[str, Any], phi: float | None, largest: int) -> Choice | None:
        """Return a better batch of at most `largest` samples; None if there is none.

        `answer`: what the service knows of the job's speed. `phi`: lower bound of the noise scale."""
        if not self.may_change or phi is None or not answer.get("models"):
            return None
        models = {name: StepTimeModel(**model) for name, model in answer["models"].items()}
        goodput = Goodput(
            models, phi, self.bounds,
            use_efficiency=answer.get("use_efficiency", True), min_efficiency=SAFE_EFFICIENCY,
        )  # fmt: skip
        gpu_type, where = answer.get("gpu_type"), (self.num_nodes, self.workers)
        [total] = next_batches(goodput, np.array([phi]), *where, self.total, largest, gpu_type)
        if total in (self.total, 0):
            return None
        new = float(goodput.at(*where, total, gpu_type))
        old = float(goodput.at(*where, self.total, gpu_type))
        at = f"on {self.workers} GPUs, at a noise scale of at least {phi:.4g}"
        if self.total > efficient_batch(goodput, phi):
            return Choice(total, f"smaller: a larger batch would be too inefficient per sample {at}")
        return Choice(total, f"goodput {new:.4g} instead of {old:.4g} samples/s {at}")

    def report(self) -> dict[str, Any]:
        bounds = self.bounds
        return {
            "init": bounds.init_batch,
            "max": bounds.max_batch,
            "min_local": bounds.min_local,
            "max_local": bounds.max_local,
            "accumulate": bounds.accumulate,
            "atomic": self.atomic,
            "accumulation": self.accumulation,
            "why": self.why,
        }


class Choice:
    """A chosen batch. `restore`: with the weights from before the batch last grew."""

    def __init__(self, total: int, why: str, restore: bool = False) -> None:
        self.total = total
        self.why = why
        self.restore = restore
