"""Run and loader for frameworks that have the training loop themselves.

Such a framework counts the steps of an epoch before it begins, so the batch is fixed, and an epoch has the same steps
on any number of workers. A step ends when the framework fetches the next batch: by then it has logged, validated and
moved its schedules.
"""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from dataclasses import replace
from typing import Any, Callable, Iterator, Sequence

import torch

from schedulearn.worker import loader as common_loader
from schedulearn.worker.order import Pass, permutation, steps
from schedulearn.worker.torch import Loader, Run

OPTIONS = ("collate_fn", "in_order", "num_workers", "pin_memory", "pin_memory_device")
PROCESS_OPTIONS = ("multiprocessing_context", "prefetch_factor", "timeout", "worker_init_fn")
"""Options of a DataLoader that its processes need. All others are set by the run."""
SAMPLERS = ("DistributedSampler", "RandomSampler", "SeedableRandomSampler", "SequentialSampler")
"""Samplers that give each sample once. The run's own order replaces them."""

NOT_IN_NAMES = re.compile(r"[^\w./ -]")
"""What the name of a metric can't have: the service would refuse the whole report."""


class FixedRun(Run):
    """Run of a framework. `framework`: its name in messages; `batch_size`: total over all workers."""

    adapts = False
    began = False
    """Whether this process has one that saves checkpoints."""

    def __init__(self, framework: str, batch_size: int, seed: int = 0) -> None:
        super().__init__(batch_size, accumulate=False, scaling="none", seed=seed)
        if self._checkpoints is not None:
            if FixedRun.began:
                raise ValueError("this is the second training of the job, and would continue the first: use two jobs")
            FixedRun.began = True
        total = self.batch.bounds.init_batch
        if self.workers.size > total:
            raise ValueError(f"a batch of {total} is not enough for {self.workers.size} workers: ask for fewer GPUs")
        largest = self.env.max_batch_size if self.env is not None else None
        if self.leads and largest and largest > total:
            said = f"{framework} fixes the steps of an epoch: the batch stays at {total}, not up to {largest}"
            print(f"schedulearn: {said}", file=sys.stderr, flush=True)  # noqa: T201
        self.weighs = True
        """Whether a worker's gradient counts by its samples; False: the framework does that itself."""
        self.state_of: Callable[[], Any] = dict
        """Returns the framework's part of a checkpoint."""
        self.restore_state: Callable[[Any], None] = lambda state: None
        self._open: tuple[Pass, float] | None = None
        self._computed_at: float | None = None
        self._ending = False

    def log(self, **values: float) -> None:
        """Log metrics under the names that the framework has for them, as far as the service takes these."""
        super().log(**{NOT_IN_NAMES.sub("_", name)[:64]: value for name, value in values.items() if name})

    def capture(self) -> dict[str, Any]:
        return {"framework": self.state_of()}

    def apply(self, captured: dict[str, Any]) -> None:
        self.restore_state(captured["framework"])

    def is_trained(self, batch: int) -> bool:
        return self._ending or super().is_trained(batch)

    def fetched(self, this: Pass, began: float) -> None:
        """Begin the step of a batch that the framework has fetched since `began`."""
        if not self.weighs and this.weight:
            this = replace(this, weight=1.0)
        self._open, self._computed_at = (this, began), None
        self.begin_pass(this)

    def computed(self) -> None:
        """Note that the step is computed. Validation and the like, before the next batch, are not part of its time."""
        self._computed_at = time.perf_counter()

    def finish(self) -> None:
        """End the open step, if there is one. The run may save here, or end the process."""
        if self._open is None:
            return
        (this, began), self._open = self._open, None
        self.end_pass(this, (self._computed_at or time.perf_counter()) - began)

    def finish_epoch(self) -> None:
        """End the last step of an epoch, and the epoch, which the framework may have ended early.

        The run does not end between the two: the next attempt would find an epoch without a step."""
        self._ending = True
        self.finish()
        self._ending = False
        self.end_epoch(self.batch.total)


class FixedLoader(Loader):
    """Loader with a length: the steps of a whole epoch, of which an attempt may have only the rest.

    `limit`: maximum number of steps in an epoch."""

    run: FixedRun

    def __init__(self, run: FixedRun, dataset: Any, options: dict[str, Any], limit: int | None = None) -> None:
        super().__init__(run, dataset, options)
        self._whole = run.samples
        if limit is not None:
            run.samples = min(run.samples, limit * run.batch.total)

    def __len__(self) -> int:
        return -(-self.run.samples // self.run.batch.total)

    def __iter__(self) -> Iterator[Any]:
        run, workers = self.run, self.run.workers
        coming: deque[Pass] = deque()

        def batches() -> Iterator[Sequence[int]]:
            order = permutation(run.seed, run.epoch, self._whole)[: run.samples]
            for each in steps(order, run.position, workers.rank, workers.size, run.batch.total, 1, least=1):
                coming.append(each)
                yield each.indices.tolist()

        self.settle()
        began = time.perf_counter()
        for data in self.fetch(common_loader.Batches(batches())):
            run.fetched(coming.popleft(), began)
            yield data
            run.finish()
            self.settle()
            began = time.perf_counter()

    # For frameworks that ask whether a loader can continue in the middle of an epoch: the run knows the place.
    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def options_of(loader: Any) -> tuple[int, dict[str, Any]]:
    """Return the batch of a framework's `loader`, and its options for the run's own loader.

    Raises ValueError if the order of its samples can't be the run's."""
    if not isinstance(loader, torch.utils.data.DataLoader):
        kind = type(loader).__name__
        raise ValueError(f"the training data are a {kind}, but the SDK needs a torch DataLoader of a data set")
    batches: Any = loader.batch_sampler
    while hasattr(batches, "batch_sampler"):  # Accelerate's share of one worker
        batches = batches.batch_sampler
    if isinstance(loader.dataset, torch.utils.data.IterableDataset) or batches is None:
        raise ValueError("the training data have no length: give a data set with __len__ and __getitem__")
    sampler = type(batches.sampler if type(batches) is torch.utils.data.BatchSampler else batches).__name__
    if sampler not in SAMPLERS:
        raise ValueError(f"the training data have a {sampler}, but the SDK orders the samples: use shuffle=True")
    names = (*OPTIONS, *PROCESS_OPTIONS) if loader.num_workers else OPTIONS
    return batches.batch_size, {name: getattr(loader, name) for name in names if hasattr(loader, name)}
