"""The loader that a PyTorch script iterates over."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

import torch

from schedulearn.worker.order import Pass, permutation, steps

if TYPE_CHECKING:
    from schedulearn.worker.torch import Run


class Loader:
    """Iterates over what is left of an epoch. Between two steps the batch and the workers may change, or the
    run end."""

    def __init__(self, run: Run, dataset: Any, options: dict[str, Any]) -> None:
        for name in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"):
            if name in options:
                raise ValueError(f"{name} is for Run to decide: leave it out")
        self.dataset = dataset
        self._run = run
        self._options = {**options, "worker_init_fn": _Apart(options.get("worker_init_fn"))}
        run.samples = len(dataset)
        if run.samples < run.workers.size:
            raise ValueError(f"{run.samples} samples are not enough for {run.workers.size} workers")

    def __len__(self) -> int:
        """Steps of a whole epoch at the batch of now."""
        return max(1, self._run.samples // self._run.batch.total)

    def __iter__(self) -> Iterator[Any]:
        run = self._run
        order = permutation(run.seed, run.epoch, run.samples)
        while run.position < len(order):
            yield from self._until_change(order)

    def _until_change(self, order: Any) -> Iterator[Any]:
        run = self._run
        workers, shape = run.workers, (run.batch.atomic, run.batch.accumulation)
        coming: deque[Pass] = deque()

        def batches() -> Iterator[Sequence[int]]:
            for each in steps(order, run.position, workers.rank, workers.size, *shape):
                coming.append(each)
                yield each.indices.tolist()

        generator = torch.Generator().manual_seed(run.seed + run.epoch)  # not the script's own random numbers
        loader = torch.utils.data.DataLoader(
            self.dataset, batch_sampler=_Batches(batches()), generator=generator, **self._options
        )
        began = time.perf_counter()
        for data in loader:
            this = coming.popleft()
            run.begin_pass(this)
            yield data
            run.end_pass(this, time.perf_counter() - began)
            if this.last and (workers is not run.workers or shape != (run.batch.atomic, run.batch.accumulation)):
                return
            began = time.perf_counter()


class _Apart:
    """At the start of each of a loader's own processes: what tells workers to stop goes to their whole process group,
    and a worker whose loader died of it could not finish its step."""

    def __init__(self, then: Callable[[int], Any] | None) -> None:
        self._then = then

    def __call__(self, number: int) -> None:
        os.setpgid(0, 0)
        if self._then is not None:
            self._then(number)


class _Batches:
    """What DataLoader wants of a batch sampler: it is iterated once."""

    def __init__(self, batches: Iterator[Sequence[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Sequence[int]]:
        return self._batches
