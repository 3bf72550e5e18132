"""Iteration over the rest of an epoch, for all frameworks."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Iterable, Iterator, Sequence

from schedulearn.worker.order import Pass, permutation, steps
from schedulearn.worker.run import Run

OURS = ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "last_batch")


class Loader:
    """Base class of data loaders.

    Between two steps the batch and the workers may change, or the run may end."""

    def __init__(self, run: Run, dataset: Any, options: dict[str, Any]) -> None:
        for name in OURS:
            if name in options:
                raise ValueError(f"{name} is set by Run: leave it out")
        self.dataset = dataset
        self.run = run
        self.options = options
        run.samples = len(dataset)
        if run.samples < run.workers.size:
            raise ValueError(f"{run.samples} samples are not enough for {run.workers.size} workers")

    def fetch(self, batches: Batches) -> Iterable[Any]:
        """The data of each of the batches, in their order."""
        raise NotImplementedError

    def settle(self) -> None:
        """Prepare for the next step; called before its timer starts."""

    def __len__(self) -> int:
        """Return the number of steps in a whole epoch at the current batch."""
        return max(1, int(self.run.samples / self.run.worth) // self.run.batch.total)

    def __iter__(self) -> Iterator[Any]:
        run = self.run
        while not run.is_trained(run.batch.total):
            end = run.epoch_end(run.batch.total)
            yield from self._until_change(permutation(run.seed, run.epoch, run.samples, end))

    def _until_change(self, order: Any) -> Iterator[Any]:
        run = self.run
        workers, shape = run.workers, run.batch.shape
        coming: deque[Pass] = deque()

        def batches() -> Iterator[Sequence[int]]:
            for each in steps(order, run.position, workers.rank, workers.size, *shape):
                coming.append(each)
                yield each.indices.tolist()

        self.settle()
        began = time.perf_counter()
        for data in self.fetch(Batches(batches())):
            this = coming.popleft()
            run.begin_pass(this)
            yield data
            run.end_pass(this, time.perf_counter() - began)
            changed = workers is not run.workers or shape != run.batch.shape
            if this.last and (changed or run.is_trained(run.batch.total)):
                return
            self.settle()
            began = time.perf_counter()


class Batches:
    """Batch sampler for data loaders, iterated once."""

    def __init__(self, batches: Iterator[Sequence[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Sequence[int]]:
        return self._batches
