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

import signal
import sys
import threading
import time
from typing import Any, Iterator, Sequence

import numpy as np
import torch

from schedulearn.metrics.goodput import BatchBounds
from schedulearn.metrics.noise_scale import learning_rate_factor
from schedulearn.worker import PREEMPTED
from schedulearn.worker.batch import Batch, Choice
from schedulearn.worker.checkpoints import Checkpoints
from schedulearn.worker.environment import Environment
from schedulearn.worker.measurements import Measurements
from schedulearn.worker.membership import UNREACHABLE, Membership, Roster
from schedulearn.worker.order import Pass
from schedulearn.worker.reporter import Reporter
from schedulearn.worker.torch_loader import Loader
from schedulearn.worker.torch_optimizer import Instruments
from schedulearn.worker.torch_state import load, load_optimizer, random_state, set_random_state
from schedulearn.worker.torch_workers import (
    Finish,
    end_when_others_are_lost,
    find_workers,
    joined,
    leave,
    pretend,
    pretend_no_more,
)

WARM_UP = 2  # steps that are not measured, when workers or batch are new
SAVING_SHARE = 20  # a checkpoint that takes t seconds is made every 20 t at most
PARTIAL_S = 20.0  # for which only some workers may be told to stop without anybody saying that the others go on


def _place_of_this_worker() -> Membership | None:
    """If it is one that comes and goes: it is alone until the script is ready to train."""
    env = Environment.read()
    if env is None or env.member is None:
        return None
    pretend(env.rank, env.workers)
    return Membership(env)


_MEMBERSHIP = _place_of_this_worker()  # when this is imported: the script asks Horovod for its rank soon after


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
        self.membership = _MEMBERSHIP
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
        self._partly_told_at: float | None = None
        self._checkpoints: Checkpoints | None = None
        self._reporter: Reporter | None = None
        if self.env is None:
            return
        if self.env.checkpoint_dir:
            self._checkpoints = Checkpoints(self.env.checkpoint_dir)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_term)
        if self.membership is not None:
            if self.workers.name != "horovod":
                raise ValueError("this job is resized in place, which needs hvd.init() before worker.Run")
            end_when_others_are_lost(UNREACHABLE)
        leads = self.workers.rank == 0 if self.membership is None else self.membership.leads
        if leads and self.env.report_url:
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
        if self.membership is not None:
            self._join(self.membership.first(lambda: self.stopping))
        self._restore()
        if self._reporter is not None:
            self._reporter.start()
        try:
            while self.epoch < total:
                yield self.epoch
                self.epoch += 1
                self.position = 0
        finally:
            if self.membership is not None:
                self.membership.close()
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
        told, save, change, regroup = self.instruments.finish_step()
        if self.membership is not None:
            self.membership.trains()
        if self._stopped_at is not None:
            self._tell_stall(time.time() - self._stopped_at)
        self._look_at_answer()
        # Not between the last step of an epoch and what the script does after it: an attempt that began there would
        # meet an epoch without a step. The next one's first step is soon enough, and at the very end none is needed.
        if self.position < self.samples:
            if told > 0 and self._all_are_to_stop(told):
                self._preempt()
            if save > 0:
                self.save()
            if regroup > 0:
                self._regroup()
                return
        if change > 0:
            self._change_batch()

    def flags(self) -> list[float]:
        """What this worker tells all others with each step: whether it is to stop, and whether all are to save, to
        change the batch, or to go on with other workers."""
        due = max(self.env.checkpoint_interval if self.env else 0.0, SAVING_SHARE * self._saving_s)
        first = self.workers.rank == 0
        save = first and self._checkpoints is not None and time.monotonic() - self._saved_at >= due
        regroup = first and self.membership is not None and self.membership.due()
        stop = float(self.stopping)
        if first and self._partly_told_at is not None and time.monotonic() - self._partly_told_at > PARTIAL_S:
            stop = float(self.workers.size)
        return [stop, float(save), float(self._choice is not None), float(regroup)]

    def save(self, stopping: bool = False) -> None:
        """Saves a checkpoint; all workers call it at the same step. `stopping`: it is the last thing they do."""
        began = time.monotonic()
        random_states = self.workers.gather(random_state())
        if self.workers.rank == 0 and self._checkpoints is not None:
            whole = self._whole(random_states, time.time() if stopping else None)
            try:
                self._checkpoints.save(self.step, lambda file: torch.save(whole, file))
            except OSError as error:
                print(f"schedulearn: no checkpoint at step {self.step}: {error}", file=sys.stderr)  # noqa: T201
        self.workers.broadcast(None)  # no worker goes on, or ends, before it is on disk
        self._saved_at = time.monotonic()
        self._saving_s = self._saved_at - began

    # --- the rest ---

    def _whole(self, random_states: Sequence[dict[str, Any]] | None, stopped_at: float | None) -> dict[str, Any]:
        """All that a worker needs to go on from here. `random_states`: by rank; those that have none get a new one, and
        all keep their own if it is None."""
        meter = self.instruments.meter if self.instruments is not None else None
        return {
            "states": {name: thing.state_dict() for name, thing in self._states.items()},
            "optimizer": self._optimizer.state_dict() if self._optimizer is not None else None,
            "place": {"epoch": self.epoch, "position": self.position, "step": self.step, "samples": self.samples},
            "batch": self.batch.total,
            "why": self.batch.why,
            "noise": [meter.noise.sqr_mean, meter.noise.var_mean, meter.noise.weight] if meter else None,
            "answer": self._answer,
            "random": random_states,
            "stopped_at": stopped_at,
        }

    def _all_are_to_stop(self, told: float) -> bool:
        """Not if the workers that are told to stop leave, and the others go on: the service says so soon."""
        if self.membership is None or told >= self.workers.size:
            return True
        if self._partly_told_at is None:
            self._partly_told_at = time.monotonic()
        return False

    def _join(self, roster: Roster) -> None:
        assert self.membership is not None
        if 0 < self.samples < len(roster.members):
            raise ValueError(f"{self.samples} samples are not enough for {len(roster.members)} workers")
        self.membership.enter(roster)
        pretend_no_more()
        self.workers = joined()
        self.batch.resize(self.workers.size)
        if self.instruments is not None:
            self.instruments.regroup()
        self._warm = 0
        self._partly_told_at = None

    def _regroup(self) -> None:
        """Goes on with other workers, all of which are ready. The only copy of the training's state that they need is
        that of the first one."""
        assert self.membership is not None
        began = time.time()
        before = self.membership.current.members
        roster = self.workers.broadcast(self.membership.offer() if self.workers.rank == 0 else None)
        if roster is None:
            return
        if self.membership.member not in roster.members:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            leave()
            raise SystemExit(0)
        self._join(roster)
        if not set(roster.members) <= set(before):
            self.workers.broadcast(self._whole([], None) if self.workers.rank == 0 else None)
        self._choose()
        self._change_batch()
        self._stopped_at = began
        if self.workers.rank == 0:
            where = f"epoch {self.epoch}, sample {self.position}, step {self.step}"
            print(f"schedulearn: goes on at {where}, with {self.workers.size} workers, in place", flush=True)  # noqa: T201

    def _restore(self) -> None:
        whole = None
        if self.workers.rank == 0 and self._checkpoints is not None:
            for step, path in self._checkpoints.newest_first():
                try:
                    whole = load(path)
                    break
                except Exception as error:
                    print(f"schedulearn: checkpoint {step} is left out: {error}", file=sys.stderr)  # noqa: T201
        if self.env is None:
            return
        if whole is None and self.membership is not None and self.workers.size > 1:
            whole = self._whole(None, None)  # the script could not share its first weights: each worker was alone
        whole = self.workers.broadcast(whole)
        if whole is None:
            return
        for name, thing in self._states.items():
            if name in whole["states"]:
                thing.load_state_dict(whole["states"][name])
        if self._optimizer is not None and whole["optimizer"] is not None:
            load_optimizer(self._optimizer, whole["optimizer"])
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
        if whole["random"] is not None:
            set_random_state(whole["random"], self.workers.rank, self.seed + self.step)
        if self.workers.rank == 0 and self.step:
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
