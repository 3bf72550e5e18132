"""The batch of a job: chosen by its goodput on the GPUs that it has, within the script's bounds."""

from __future__ import annotations

from typing import Any

from schedulearn.metrics.goodput import BatchBounds, Goodput
from schedulearn.metrics.throughput import StepTimeModel


class Batch:
    """`atomic` samples a worker in one pass, `accumulation` passes before the one that updates, and `why`."""

    def __init__(self, bounds: BatchBounds, num_nodes: int, workers: int) -> None:
        self.bounds = bounds
        self.num_nodes = num_nodes
        self.workers = workers
        self.atomic = self.accumulation = 0
        self.why = ""
        first = "the first batch" if bounds.max_batch > bounds.init_batch else "fixed: no larger one is allowed"
        self.keep_total(bounds.init_batch, first)

    @property
    def total(self) -> int:
        """Samples of one step."""
        return self.workers * self.atomic * (self.accumulation + 1)

    def keep_total(self, total: int, why: str) -> None:
        """The nearest to `total` that these workers can do."""
        bounds = self.bounds
        local = max(1, bounds.min_local, -(-total // self.workers))
        passes = 1
        if bounds.max_local is not None and local > bounds.max_local:
            passes = -(-local // bounds.max_local) if bounds.accumulate else 1
            local = min(bounds.max_local, -(-local // passes))
        self.atomic, self.accumulation, self.why = local, passes - 1, why

    def resize(self, workers: int) -> None:
        """The same batch, as near as it can be, on another number of workers."""
        total, self.workers = self.total, workers
        self.keep_total(total, self.why)

    def best(self, answer: dict[str, Any], phi: float | None) -> Choice | None:
        """A better batch by what the service knows of the job's speed, `answer`, at noise scale `phi`; else None."""
        if self.bounds.max_batch == self.bounds.init_batch or phi is None or not answer.get("models"):
            return None
        models = {name: StepTimeModel(**model) for name, model in answer["models"].items()}
        goodput = Goodput(models, phi, self.bounds, use_efficiency=answer.get("use_efficiency", True))
        gpu_type = answer.get("gpu_type")
        choice = goodput.keep_or_change(self.num_nodes, self.workers, self.atomic, self.accumulation, gpu_type)
        if choice == (self.atomic, self.accumulation):
            return None
        old = float(goodput.at(self.num_nodes, self.workers, self.atomic, self.accumulation, gpu_type))
        new = float(goodput.at(self.num_nodes, self.workers, choice[0], choice[1], gpu_type))
        return Choice(
            choice[0],
            choice[1],
            f"goodput {new:.4g} instead of {old:.4g} samples/s on {self.workers} GPUs, at a noise scale of {phi:.4g}",
        )

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
    def __init__(self, atomic: int, accumulation: int, why: str) -> None:
        self.atomic = atomic
        self.accumulation = accumulation
        self.why = why
