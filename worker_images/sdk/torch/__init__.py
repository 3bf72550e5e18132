"""SDK for PyTorch scripts, with Horovod, with torchrun (DistributedDataParallel), or alone.

A script needs about six lines:

    import schedulearn.worker.torch as worker

    run = worker.Run(batch_size=64)                       # after hvd.init() or init_process_group()
    loader = run.loader(train_set)                        # instead of DataLoader and DistributedSampler
    optimizer = run.optimizer(optimizer, model)           # instead of hvd.DistributedOptimizer
    for epoch in run.epochs(20, model=model):             # continues where the previous attempt stopped
        for x, y in loader: ...                           # unchanged
        run.log(loss=loss, accuracy=accuracy)

`batch_size` is the total over all workers, for which the learning rate was chosen. Outside Schedulearn the batch is
fixed, and nothing is measured, reported or saved. The optimizer is then Horovod's own, unless a step takes several
micro-steps.
"""

from __future__ import annotations

import copy
import os
import sys
from functools import partial
from typing import Any, BinaryIO, Callable, Iterable, Iterator

import numpy as np
import torch

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.worker import loader as common_loader
from schedulearn.worker.environment import Environment
from schedulearn.worker.in_place import InPlaceRun
from schedulearn.worker.membership import UNREACHABLE, Membership
from schedulearn.worker.order import Pass
from schedulearn.worker.torch.accumulation import SCALER
from schedulearn.worker.torch.optimizer import TorchInstruments
from schedulearn.worker.torch.shards import Shards, is_sharded, keep_groups
from schedulearn.worker.torch.workers import (
    TorchWorkers,
    end_when_others_are_lost,
    find_workers,
    joined,
    leave,
    pretend,
    pretend_no_more,
)
from schedulearn.worker.workers import Alone, HorovodWorkers


def _place_of_this_worker() -> Membership | None:
    """Return the membership of this worker, if workers come and go; else None.

    Such a worker is alone until the script is ready to train."""
    env = Environment.read()
    if env is None or env.member is None:
        return None
    pretend(env.rank, env.workers)
    return Membership(env)


_MEMBERSHIP = _place_of_this_worker()  # at import: the script asks Horovod for its rank soon after


class Run(InPlaceRun):
    """One training run, over all its attempts.

    `batch_size`: total over all workers. `max_batch`: maximum batch size (None: the batch is fixed). `min_local`,
    `max_local`: bounds of one worker's micro-step. `scaling` of the learning rate with the batch: adascale, sqrt,
    linear or none. None means adascale for SGD, and sqrt for all others. Raises ValueError for bounds that hold no
    batch."""

    def __init__(
        self,
        batch_size: int,
        max_batch: int | None = None,
        *,
        min_local: int = 1,
        max_local: int | None = None,
        accumulate: bool = True,
        scaling: str | None = None,
        seed: int = 0,
    ) -> None:
        bounds = BatchBounds(batch_size, max_batch or batch_size, min_local, max_local, accumulate)
        workers = find_workers()
        if _MEMBERSHIP is not None:
            if workers.name != "horovod":
                raise ValueError("resize: in-place needs hvd.init() before worker.Run")
            end_when_others_are_lost(UNREACHABLE)
        super().__init__(workers, bounds, scaling, seed, _MEMBERSHIP)
        self._optimizers: list[Any] = []
        self._states: dict[str, Any] = {}
        self._shards: Shards | None = None
        """Models and optimizers that are spread over the workers; None: each worker has all of them."""
        self._states_before: Any = None
        """The script's states and learning rates from before a step of several micro-steps."""

    def loader(self, dataset: Any, **options: Any) -> Loader:
        """Return batches of `dataset`, which has a length, in a new order each epoch.

        `options` are those of torch's DataLoader, except for batch size, order and sampling, which the run sets."""
        return Loader(self, dataset, options)

    def optimizer(self, optimizer: Any, model: Any = None, **options: Any) -> Any:
        """Return `optimizer`, made to average gradients and, in Schedulearn, to measure.

        Under Horovod, `options` are for its DistributedOptimizer. With torchrun, `model` is the
        DistributedDataParallel, or what `fully_shard` was applied to. Call it for each of several optimizers: the
        learning rate and the noise scale follow the first one."""
        if self.scaling is None:
            self.scaling = "adascale" if isinstance(optimizer, torch.optim.SGD) else "sqrt"
        if isinstance(self.workers, HorovodWorkers):
            if model is not None:
                options.setdefault("named_parameters", model.named_parameters())
            optimizer = self.workers.hvd.DistributedOptimizer(optimizer, **options)
        elif is_sharded(model):
            self._shard(optimizer, model)
        if self.instruments is None and (self.env is not None or self.batch.accumulation):
            self.instruments = TorchInstruments(self, optimizer)
        if isinstance(self.instruments, TorchInstruments):
            self.instruments.attach(optimizer, model)
        self._optimizers.append(optimizer)
        return optimizer

    def _shard(self, optimizer: Any, model: Any) -> None:
        if self.env is not None and self.env.num_nodes > 1:
            raise ValueError("FSDP on several hosts is not supported, as each host has its own checkpoints: use one")
        if self.batch.accumulation:
            raise ValueError("FSDP does not support steps of several passes: increase max_local, or use more GPUs")
        if self.batch.may_change and self.leads:
            print("schedulearn: with FSDP the noise is not measured: the batch is fixed", file=sys.stderr, flush=True)  # noqa: T201
        self.batch.fix("fixed: with FSDP the noise is not measured")
        if self._shards is None and isinstance(self.workers, TorchWorkers):
            self._shards = Shards(self.workers.group)
        if self._shards is not None:
            self._shards.optimizers.append((model, optimizer))
            self.sharded = True

    def epochs(self, total: int, **states: Any) -> Iterator[int]:
        """Yield the numbers of the epochs left of `total`.

        `states`: what a checkpoint holds besides the optimizer, by name. This may be the model, schedules, or anything
        with state_dict and load_state_dict."""
        self._states = states
        return self.loop(total)

    def begin_pass(self, this: Pass) -> None:
        super().begin_pass(this)
        if self.instruments is not None and this.first and not this.last:
            self._states_before = copy.deepcopy(self._changed_by_steps())

    def end_pass(self, this: Pass, seconds: float) -> None:
        """Finish a micro-step.

        Schedules and averages of weights move once a step, though the script may move them after each micro-step."""
        if self.instruments is not None and not this.last:
            states, groups = copy.deepcopy(self._states_before)
            for name, state in states.items():
                self._states[name].load_state_dict(state)
            for group, before in zip(self._groups(), groups):
                group.update(before)
        super().end_pass(this, seconds)

    def _changed_by_steps(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """States other than the trained model's, and the options of all parameter groups."""
        trained = {id(parameter) for group in self._groups() for parameter in group["params"]}
        states = {
            name: thing.state_dict()
            for name, thing in self._states.items()
            if not isinstance(thing, (torch.optim.Optimizer, SCALER))
            and not any(id(parameter) in trained for parameter in _parameters(thing))
        }
        options = [{name: value for name, value in group.items() if name != "params"} for group in self._groups()]
        return states, options

    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]

    # --- specific to PyTorch ---

    def join(self) -> Alone:
        pretend_no_more()
        return joined()

    def leave(self) -> None:
        leave()

    def capture(self) -> dict[str, Any]:
        return {
            "states": {n: thing.state_dict() for n, thing in self._states.items() if n not in self._sharded()},
            "optimizer": [] if self._shards else [optimizer.state_dict() for optimizer in self._optimizers],
        }

    def apply(self, captured: dict[str, Any]) -> None:
        for name, thing in self._states.items():
            if name in captured["states"]:
                thing.load_state_dict(captured["states"][name])
        saved = captured["optimizer"] or []
        for optimizer, state in zip(self._optimizers, saved if isinstance(saved, list) else [saved]):  # older: of one
            keep_groups(optimizer, partial(optimizer.load_state_dict, state))
        if self._shards is not None and self._checkpoints is not None:
            self._shards.load(self._sharded(), self._checkpoints.shards(captured["place"]["step"]))

    def save_shards(self, folder: str) -> None:
        if self._shards is not None:
            self._shards.save(self._sharded(), folder)

    def _sharded(self) -> dict[str, Any]:
        return {name: thing for name, thing in self._states.items() if self._shards and is_sharded(thing)}

    def write(self, whole: dict[str, Any], file: BinaryIO) -> None:
        torch.save(whole, file)

    def read(self, file: BinaryIO) -> Any:
        return _load(file)

    def random_state(self) -> dict[str, Any]:
        state = {**super().random_state(), "torch": torch.get_rng_state()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state()
        return state

    def set_random_state(self, state: dict[str, Any]) -> None:
        super().set_random_state(state)
        torch.set_rng_state(state["torch"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda"])

    def seed_random(self, seed: int) -> None:
        super().seed_random(seed)
        torch.manual_seed(seed)


class Loader(common_loader.Loader):
    def __init__(self, run: Run, dataset: Any, options: dict[str, Any]) -> None:
        apart = {"worker_init_fn": _Apart(options.get("worker_init_fn"))}
        super().__init__(run, dataset, {**options, **apart})

    def settle(self) -> None:
        if isinstance(self.run.instruments, TorchInstruments):
            self.run.instruments.settle()

    def fetch(self, batches: common_loader.Batches) -> Iterable[Any]:
        # Independent of the script's own random numbers. Each worker and each part of an epoch has others.
        run = self.run
        parts = [part % (1 << 64) for part in (run.seed, run.epoch, run.position, run.workers.rank)]
        generator = torch.Generator().manual_seed(int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0]))
        return torch.utils.data.DataLoader(self.dataset, batch_sampler=batches, generator=generator, **self.options)  # type: ignore[no-any-return]


class _Apart:
    """Hook that puts each process of a loader into a process group of its own.

    The signal to stop goes to a worker's whole process group. A worker whose loader died of it could not finish its
    step."""

    def __init__(self, then: Callable[[int], Any] | None) -> None:
        self._then = then

    def __call__(self, number: int) -> None:
        os.setpgid(0, 0)
        if self._then is not None:
            self._then(number)


def _parameters(thing: Any) -> Iterable[Any]:
    return thing.parameters() if isinstance(thing, torch.nn.Module) else ()


def _load(file: BinaryIO) -> Any:
    try:
        return torch.load(file, map_location="cpu", weights_only=False)  # what `write` wrote
    except TypeError:  # PyTorch before 1.13
        return torch.load(file, map_location="cpu")
