"""For PyTorch scripts, with Horovod, with torchrun (DistributedDataParallel), or alone. About six lines:

    import schedulearn.worker.torch as worker

    run = worker.Run(batch_size=64, max_batch=1024)       # after hvd.init() or init_process_group()
    loader = run.loader(train_set)                        # in place of DataLoader and DistributedSampler
    optimizer = run.optimizer(optimizer, model)           # in place of hvd.DistributedOptimizer
    for epoch in run.epochs(20, model=model):             # goes on where the attempt before stopped
        for x, y in loader: ...                           # as ever
        run.log(loss=loss, accuracy=accuracy)

`batch_size` is that of all workers together, for which the learning rate was chosen. Outside Schedulearn the batch
stays what it is, nothing is measured, reported or saved, and the optimizer is Horovod's own.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections import deque
from typing import Any, Iterable, Iterator, Sequence

import numpy as np
import torch

from schedulearn.metrics.goodput import BatchBounds
from schedulearn.metrics.noise_scale import learning_rate_factor
from schedulearn.worker import PREEMPTED
from schedulearn.worker.batch import Batch, Choice
from schedulearn.worker.checkpoints import Checkpoints
from schedulearn.worker.environment import Environment
from schedulearn.worker.measurements import Measurements
from schedulearn.worker.order import Pass, permutation, steps
from schedulearn.worker.reporter import Reporter
from schedulearn.worker.torch_optimizer import Instruments
from schedulearn.worker.torch_workers import Finish, find_workers

WARM_UP = 2  # steps that are not measured, when workers or batch are new
SAVING_SHARE = 20  # a checkpoint that takes t seconds is made every 20 t at most


class Run:
    """One training run, over all its attempts. `batch_size`: of all workers together; `max_batch`: how large it may
    become (None: it stays); `min_local`, `max_local`: bounds of one worker's pass; `scaling` of the learning rate with
    the batch: adascale, sqrt (for Adam), linear, none. Raises ValueError for bounds that hold no batch."""

    def __init__(
        self,
        batch_size: int,
        max_batch: int | None = None,
        *,
        min_local: int = 1,
        max_local: int | None = None,
        accumulate: bool = True,
        scaling: str = "adascale",
        seed: int = 0,
    ) -> None:
        self.env = Environment.read()
        self.workers = find_workers()
        bounds = BatchBounds(batch_size, max_batch or batch_size, min_local, max_local, accumulate)
        self.batch = Batch(bounds, self.env.num_nodes if self.env else 1, self.workers.size)
        self.seed = seed
        self.scaling = scaling
        self.epoch = 0
        self.total_epochs: int | None = None
        self.position = 0
        """Samples of this epoch that all workers have done."""
        self.samples = 0
        """Of an epoch."""
        self.step = 0
        """Optimizer steps so far, over all attempts."""
        self.current: Pass | None = None
        self.stopping = False
        self.instruments: Instruments | None = None
        self._optimizer: Any = None
        self._states: dict[str, Any] = {}
        self._measurements = Measurements()
        self._sums: Finish | None = None
        self._choice: Choice | None = None
        self._answer: dict[str, Any] | None = None
        self._warm = 0
        self._began = 0.0
        self._saved_at = time.monotonic()
        self._saving_s = 0.0
        self._stopped_at: float | None = None
        self._checkpoints: Checkpoints | None = None
        self._reporter: Reporter | None = None
        if self.env is None:
            return
        if self.env.checkpoint_dir:
            self._checkpoints = Checkpoints(self.env.checkpoint_dir)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_term)
        if self.workers.rank == 0 and self.env.report_url:
            self._reporter = Reporter(self.env, self._report, self._measurements.put_back)

    # --- what a script calls ---

    def loader(self, dataset: Any, **options: Any) -> Loader:
        """Batches of `dataset`, which has a length, in a new order each epoch. `options` as for torch's DataLoader, of
        which batch size, order and sampling are ours."""
        return Loader(self, dataset, options)

    def optimizer(self, optimizer: Any, model: Any = None, **options: Any) -> Any:
        """`optimizer`, made to average gradients (under Horovod, with `options` for its DistributedOptimizer) and, in
        Schedulearn, to measure. With torchrun `model` is the DistributedDataParallel."""
        if self.workers.name == "horovod":
            if model is not None:
                options.setdefault("named_parameters", model.named_parameters())
            if self.env is not None:
                self.instruments = Instruments(self, optimizer)  # its hooks come before Horovod's
            optimizer = self.workers.hvd.DistributedOptimizer(optimizer, **options)  # type: ignore[attr-defined]
        elif self.env is not None:
            self.instruments = Instruments(self, optimizer)
        if self.instruments is not None:
            self.instruments.attach(optimizer, model)
        self._optimizer = optimizer
        return optimizer

    def epochs(self, total: int, **states: Any) -> Iterator[int]:
        """The numbers of the epochs that are left of `total`. `states`: what a checkpoint is to hold besides the
        optimizer: the model, schedules, anything with state_dict and load_state_dict, by name."""
        self._states = states
        self.total_epochs = total
        self._restore()
        if self._reporter is not None:
            self._reporter.start()
        try:
            while self.epoch < total:
                yield self.epoch
                self.epoch += 1
                self.position = 0
        finally:
            if self._reporter is not None:
                self._reporter.close()

    def log(self, **values: float) -> None:
        """Metrics, for the page and the API. Rank 0's count."""
        if self._reporter is not None:
            for name, value in values.items():
                number = float(value)
                if np.isfinite(number):
                    self._measurements.add_metric(name, self.step, number)

    @property
    def progress(self) -> float:
        """Epochs done, with the part of this one: what a schedule of the learning rate should go by, since the number
        of steps in an epoch changes with the batch."""
        return self.epoch + (self.position / self.samples if self.samples else 0.0)

    def learning_rate_factor(self) -> float:
        """By what the script's learning rate is multiplied at the batch of this step."""
        if self.instruments is None or self.current is None:
            return 1.0
        batch = max(self.batch.total, self.batch.bounds.init_batch)
        return learning_rate_factor(self.scaling, self.instruments.meter.noise, batch)

    # --- what its parts call ---

    def begin_pass(self, this: Pass) -> None:
        self.current = this
        if self.instruments is not None:
            self.instruments.begin_pass(this)

    def end_pass(self, this: Pass, seconds: float) -> None:
        """After all that the script did with the pass. The only place where the run saves, changes or ends."""
        if this.last:
            self.position += this.samples
            self.step += 1
        if self.instruments is None:
            return
        if not this.last:
            self.instruments.step_s += seconds
            return
        self._warm += 1
        sync = self.instruments.sync_s
        if self._warm > WARM_UP:
            # Passes that only accumulate and the one that synchronises differ by the waiting. The smaller step at the
            # end of an epoch counts too: only by another batch can be told how time grows with it.
            per_pass = (self.instruments.step_s + seconds - sync) / this.passes
            kind = (self.batch.num_nodes, self.workers.size, len(this.indices))
            self._measurements.add_pass(kind, max(per_pass, 1e-6), max(per_pass + sync, 1e-6))
        sums = self.instruments.finish_step()
        if self._stopped_at is not None:
            self._tell_stall(time.time() - self._stopped_at)
        self._look_at_answer()
        # Not between the last step of an epoch and what the script does after it: an attempt that began there would
        # meet an epoch without a step. The next one's first step is soon enough, and at the very end none is needed.
        if self.position < self.samples:
            if sums[0] > 0:
                self._preempt()
            if sums[1] > 0:
                self.save()
        if sums[2] > 0:
            self._change_batch()

    def flags(self) -> list[float]:
        """What this worker tells all others with each step: whether it is to stop, to save, to change the batch."""
        due = max(self.env.checkpoint_interval if self.env else 0.0, SAVING_SHARE * self._saving_s)
        save = self.workers.rank == 0 and self._checkpoints is not None and time.monotonic() - self._saved_at >= due
        return [float(self.stopping), float(save), float(self._choice is not None)]

    def save(self, stopping: bool = False) -> None:
        """Saves a checkpoint; all workers call it at the same step. `stopping`: it is the last thing they do."""
        began = time.monotonic()
        random_states = self.workers.gather(_random_state())
        if self.workers.rank == 0 and self._checkpoints is not None:
            state = {name: thing.state_dict() for name, thing in self._states.items()}
            meter = self.instruments.meter if self.instruments is not None else None
            whole = {
                "states": state,
                "optimizer": self._optimizer.state_dict() if self._optimizer is not None else None,
                "place": {"epoch": self.epoch, "position": self.position, "step": self.step, "samples": self.samples},
                "batch": self.batch.total,
                "why": self.batch.why,
                "noise": [meter.noise.sqr_mean, meter.noise.var_mean, meter.noise.weight] if meter else None,
                "answer": self._answer,
                "random": random_states,
                "stopped_at": time.time() if stopping else None,
            }
            try:
                self._checkpoints.save(self.step, lambda file: torch.save(whole, file))
            except OSError as error:
                print(f"schedulearn: no checkpoint at step {self.step}: {error}", file=sys.stderr)  # noqa: T201
        self.workers.broadcast(None)  # no worker goes on, or ends, before it is on disk
        self._saved_at = time.monotonic()
        self._saving_s = self._saved_at - began

    # --- the rest ---

    def _restore(self) -> None:
        whole = None
        if self.workers.rank == 0 and self._checkpoints is not None:
            for step, path in self._checkpoints.newest_first():
                try:
                    whole = _load(path)
                    break
                except Exception as error:
                    print(f"schedulearn: checkpoint {step} is left out: {error}", file=sys.stderr)  # noqa: T201
        if self.env is None:
            return
        whole = self.workers.broadcast(whole)
        if whole is None:
            return
        for name, thing in self._states.items():
            if name in whole["states"]:
                thing.load_state_dict(whole["states"][name])
        if self._optimizer is not None and whole["optimizer"] is not None:
            _load_optimizer(self._optimizer, whole["optimizer"])
        place = whole["place"]
        self.epoch, self.position, self.step = place["epoch"], place["position"], place["step"]
        self._answer = whole["answer"]
        self._stopped_at = whole["stopped_at"]
        if self.instruments is not None and whole["noise"] is not None:
            noise = self.instruments.meter.noise
            noise.sqr_mean, noise.var_mean, noise.weight = whole["noise"]
        self.batch.keep_total(whole["batch"], whole["why"])
        self._choose()
        self._change_batch()
        _set_random_state(whole["random"], self.workers.rank, self.seed + self.step)
        if self.workers.rank == 0:
            where = f"epoch {self.epoch}, sample {self.position}, step {self.step}"
            print(f"schedulearn: goes on at {where}, with {self.workers.size} workers", flush=True)  # noqa: T201

    def _tell_stall(self, seconds: float) -> None:
        """How long training stood still between two attempts; over several hosts, as far as their clocks agree."""
        self._stopped_at = None
        if self.workers.rank == 0:
            print(f"schedulearn: first step {seconds:.2f} s after the last one", flush=True)  # noqa: T201
            self.log(stall_seconds=seconds)

    def _look_at_answer(self) -> None:
        if self._reporter is not None and self._reporter.answer is not None:
            answer = self._reporter.answer
            if answer is not self._answer:
                self._answer = answer
                self._choose()

    def _choose(self) -> None:
        """Rank 0 alone decides; the others hear of it with the next step."""
        if self._answer is not None and self.workers.rank == 0 and self.instruments is not None:
            self._choice = self.batch.best(self._answer, self.instruments.meter.phi)

    def _change_batch(self) -> None:
        choice = self.workers.broadcast(self._choice)
        self._choice = None
        if choice is not None:
            self.batch.atomic, self.batch.accumulation, self.batch.why = choice.atomic, choice.accumulation, choice.why
            self._warm = 0
            if self.instruments is not None:
                self.instruments.meter.forget_pair()

    def _preempt(self) -> None:
        """Saves, and ends the process: the next attempt goes on from here."""
        if threading.current_thread() is threading.main_thread():
            # A second request would find no handler any more while Python ends, and make this look like a failure.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.save(stopping=True)
        if self._reporter is not None:
            self._reporter.close()
        if self.workers.rank == 0:
            print(f"schedulearn: stopped after step {self.step}, with a checkpoint", flush=True)  # noqa: T201
        raise SystemExit(PREEMPTED)

    def _on_term(self, *_: Any) -> None:
        self.stopping = True

    def _report(self) -> dict[str, Any]:
        phi = self.instruments.meter.phi if self.instruments is not None else None
        place = {"epoch": self.epoch, "epochs": self.total_epochs, "position": self.position, "steps": self.step}
        assert self.env is not None
        return {
            "attempt": self.env.attempt,
            "batch": self.batch.report(),
            "noise_scale": phi,
            "progress": {**place, "epoch_samples": self.samples},
            **self._measurements.take(),
        }


class Loader:
    """Iterates over what is left of an epoch. Between two steps the batch may change, or the run end."""

    def __init__(self, run: Run, dataset: Any, options: dict[str, Any]) -> None:
        for name in ("batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"):
            if name in options:
                raise ValueError(f"{name} is for Run to decide: leave it out")
        self.dataset = dataset
        self._run = run
        self._options = options
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
        shape = (run.batch.atomic, run.batch.accumulation)
        coming: deque[Pass] = deque()

        def batches() -> Iterator[Sequence[int]]:
            for each in steps(order, run.position, run.workers.rank, run.workers.size, *shape):
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
            if this.last and shape != (run.batch.atomic, run.batch.accumulation):
                return
            began = time.perf_counter()


class _Batches:
    """What DataLoader wants of a batch sampler: it is iterated once."""

    def __init__(self, batches: Iterator[Sequence[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Sequence[int]]:
        return self._batches


def _load(path: str) -> Any:
    try:
        return torch.load(path, map_location="cpu", weights_only=False)  # our own file, by its checksum
    except TypeError:  # PyTorch before 1.13
        return torch.load(path, map_location="cpu")


def _load_optimizer(optimizer: Any, state: Any) -> None:
    """`load_state_dict` makes new groups; a schedule made before would go on turning the old ones."""
    groups: Iterable[dict[str, Any]] = list(optimizer.param_groups)
    optimizer.load_state_dict(state)
    for old, new in zip(groups, optimizer.param_groups):
        old.update(new)
    optimizer.param_groups[:] = groups


def _random_state() -> dict[str, Any]:
    state = {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random_state(states: Sequence[dict[str, Any]], rank: int, seed: int) -> None:
    """A worker that was there before goes on with its own; a new one begins with one that nobody has."""
    if rank >= len(states):
        torch.manual_seed(seed * 4096 + rank)
        random.seed(seed * 4096 + rank)
        np.random.seed((seed * 4096 + rank) % (1 << 32))
        return
    state = states[rank]
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
