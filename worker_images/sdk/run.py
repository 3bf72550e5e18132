"""Base class of the runs of all frameworks.

It handles place, batch, measurements, reports, checkpoints, and the end of a run.
"""

from __future__ import annotations

import pickle
import random
import signal
import sys
import threading
import time
from dataclasses import replace
from typing import Any, BinaryIO, Iterator

import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds
from schedulearn.worker import PREEMPTED
from schedulearn.worker.batch.changes import BatchChanges
from schedulearn.worker.batch.choice import Batch
from schedulearn.worker.batch.guard import BatchGuard
from schedulearn.worker.checkpoints import Checkpoints
from schedulearn.worker.environment import Environment
from schedulearn.worker.instruments import Instruments
from schedulearn.worker.measurements import Measurements
from schedulearn.worker.order import Pass
from schedulearn.worker.place import Place
from schedulearn.worker.reporter import Reporter
from schedulearn.worker.workers import Alone

WARM_UP = 2  # steps that are not measured, when workers or batch are new
SAVING_SHARE = 20  # a checkpoint that takes t seconds is made at most every 20 t seconds


class Run(Place):
    """One training run, over all its attempts.

    The methods from `capture` on are specific to a framework. Batch bounds and a number of epochs in the job itself
    override those of the script."""

    adapts = True
    """Whether the batch may change while it trains."""
    in_place = False
    """Whether its workers may come and go while it trains."""
    sharded = False
    """Whether the model is spread over the workers, and each saves its part."""

    def __init__(self, workers: Alone, bounds: BatchBounds, scaling: str | None, seed: int) -> None:
        super().__init__()
        self.env = Environment.read()
        self.workers = workers
        if self.env is not None:
            bounds = self.env.bounds(bounds)
            if self.env.member is not None and not self.in_place:
                raise ValueError("resize: in-place needs schedulearn.worker.torch: remove it from the job")
        if not self.adapts:
            bounds = replace(bounds, max_batch=bounds.init_batch)
        self.batch = Batch(bounds, self.env.num_nodes if self.env else 1, self.workers.size)
        self.guard = BatchGuard(bounds.init_batch)
        self.seed = seed
        self.scaling = scaling
        """Rule by which the learning rate follows the batch; None: it depends on the optimizer."""
        self.current: Pass | None = None
        self.stopping = False
        self.instruments: Instruments | None = None
        self._measurements = Measurements()
        self._changes = BatchChanges(self)
        self._answer: dict[str, Any] | None = None
        self._warm = 0
        self._saved_at = time.monotonic()
        self._saving_s = 0.0
        self._stopped_at: float | None = None
        self._checkpoints: Checkpoints | None = None
        self._reporter: Reporter | None = None
        if self.env is None:
            return
        if self.env.checkpoint_dir:
            self._checkpoints = Checkpoints(self.env.checkpoint_dir)
        self.catch_sigterm()
        if self.leads and self.env.report_url:
            self._reporter = Reporter(self.env, self._report, self._measurements.put_back)

    @property
    def leads(self) -> bool:
        """Whether this worker speaks for all."""
        return self.workers.rank == 0

    # --- called by scripts ---

    def loop(self, total: int) -> Iterator[int]:
        """Yield the numbers of the epochs left of `total`, from where the previous attempt stopped."""
        self.begin(total)
        try:
            while self.epoch < (self.total_epochs or 0):
                yield self.epoch
                self.end_epoch(self.batch.total)
        finally:
            self.close()

    @property
    def is_last_pass(self) -> bool:
        """Whether this micro-step ends a step.

        With gradient accumulation a step takes several micro-steps, and `optimizer.step` does nothing before the last
        one."""
        return self.current is None or self.current.last

    def log(self, **values: float) -> None:
        """Log metrics for the page and the API.

        Only rank 0's values of a step's last micro-step are kept. A metric named `loss` also serves to notice a batch
        that does harm."""
        if self.env is None or not self.is_last_pass:
            return
        if "loss" in values:
            self.guard.see_loss(float(values["loss"]))
        if self._reporter is not None:
            for name, value in values.items():
                number = float(value)
                if np.isfinite(number):
                    self._measurements.add_metric(name, self.step, number)

    def learning_rate_factor(self) -> float:
        """Return the factor of the script's learning rate in this step."""
        if self.instruments is None or self.current is None:
            return 1.0
        return self._changes.learning_rate_factor(self.current.samples)

    # --- called by parts of the run ---

    def begin(self, total: int) -> None:
        self.total_epochs = (self.env.epochs if self.env is not None else None) or total
        self.assemble()
        self._restore()
        if self._reporter is not None:
            self._reporter.start()

    def close(self) -> None:
        if self._reporter is not None:
            self._reporter.close()

    def catch_sigterm(self) -> None:
        """Make SIGTERM stop the run at the end of a step. A framework may have put its own handler in place."""
        if self.env is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._on_term)

    def begin_pass(self, this: Pass) -> None:
        self.current = this
        if self.instruments is not None:
            self.instruments.begin_pass(this)

    def end_pass(self, this: Pass, seconds: float) -> None:
        """Finish a micro-step, after all that the script did with it.

        The run saves, changes or ends only here."""
        if this.last:
            self.count_step(this.samples)
        if self.instruments is None:
            return
        if not this.last:
            self.instruments.step_s += seconds
            return
        self._warm += 1
        # The smaller step at the end of an epoch counts too: only other batches show how the time grows with the batch.
        kind = (self.batch.num_nodes, self.workers.size, len(this.indices)) if self._warm > WARM_UP else None
        for time_of in self.instruments.step_times(kind, this.passes, seconds):
            if time_of.kind is not None:
                # Micro-steps that only accumulate and the one that synchronizes differ by the waiting time.
                per_pass = (time_of.step_s - time_of.sync_s) / time_of.passes
                self._measurements.add_pass(time_of.kind, max(per_pass, 1e-6), max(per_pass + time_of.sync_s, 1e-6))
        told, save, change, *others = self.instruments.finish_step()
        self._changes.watch()
        self.has_trained()
        if self._stopped_at is not None:
            self._tell_stall(time.time() - self._stopped_at)
        self._look_at_answer()
        # Not between the last step of an epoch and what the script does after it: an attempt that began there would
        # find an epoch without a step. The first step of the next epoch is soon enough, and at the very end none is
        # needed.
        if not self.is_trained(self.batch.total):
            if told > 0 and self.all_are_to_stop(told):
                self._preempt()
            if save > 0:
                self.save()
            if sum(others) > 0:
                self.regroup()
                return
        if change > 0:
            self._change_batch()

    def flags(self) -> list[float]:
        """Return what this worker tells the others in each step: whether to stop, to save, to change the batch."""
        due = max(self.env.checkpoint_interval if self.env else 0.0, SAVING_SHARE * self._saving_s)
        save = self.workers.rank == 0 and self._checkpoints is not None and time.monotonic() - self._saved_at >= due
        return [float(self.stopping), float(save), float(self._changes.pending)]

    def told_worth(self) -> float:
        """Return what this worker tells the others of the worth of a sample.

        Only rank 0's value counts, so that all workers have the same."""
        return self._changes.worth() if self.workers.rank == 0 else 0.0

    def save(self, stopping: bool = False) -> None:
        """Save a checkpoint; all workers call it at the same step. `stopping`: the run ends after it."""
        began = time.monotonic()
        random_states = self.workers.gather(self.random_state())
        complete = not self.sharded or self._checkpoints is None or self._save_shards(self._checkpoints)
        if self.workers.rank == 0 and self._checkpoints is not None and complete:
            whole = self._whole(random_states, time.time() if stopping else None)
            try:
                self._checkpoints.save(self.step, lambda file: self.write(whole, file))
            except OSError as error:
                self._tell_unsaved(error)
        self.workers.broadcast(None)  # no worker goes on, or ends, before it is on disk
        self._saved_at = time.monotonic()
        self._saving_s = self._saved_at - began

    def _save_shards(self, checkpoints: Checkpoints) -> bool:
        """Let each worker write its part of the model. Return whether all could."""
        if self.workers.rank == 0:
            checkpoints.clear_shards(self.step)
        self.workers.broadcast(None)
        try:
            self.save_shards(checkpoints.shards(self.step))
        except Exception as error:  # on all workers alike
            if self.workers.rank == 0:
                self._tell_unsaved(error)
            return False
        return True

    def _tell_unsaved(self, error: BaseException) -> None:
        print(f"schedulearn: can't save a checkpoint at step {self.step}: {error}", file=sys.stderr)  # noqa: T201

    # --- hooks for workers that come and go (in_place.py) ---

    def assemble(self) -> None:
        """Hook called before anything is restored: wait until all workers are there."""

    def has_trained(self) -> None:
        """Hook called after each step."""

    def all_are_to_stop(self, told: float) -> bool:
        """Return whether all workers are to stop, if `told` of them were told to."""
        return True

    def regroup(self) -> None:
        """Continue with other workers, as requested by an additional value of `flags`."""
        raise NotImplementedError

    # --- the rest ---

    def _whole(self, random_states: list[Any] | None, stopped_at: float | None) -> dict[str, Any]:
        """Return everything that a worker needs to continue from here.

        `random_states`: by rank. Workers beyond the list get a new state; if it is None, all keep their own."""
        meter = self.instruments.meter if self.instruments is not None else None
        return {
            **self.capture(),
            "place": self.place(),
            "batch": self.batch.chosen,
            "why": self.batch.why,
            "guard": self.guard.state(),
            "second_moment": self._changes.rate.second_moment,
            "noise": meter.noise.averages() if meter else None,
            "answer": self._answer,
            "random": random_states,
            "stopped_at": stopped_at,
        }

    def _first_state(self) -> dict[str, Any] | None:
        """Return the initial state where there is no checkpoint.

        None: the state that the script has made on all workers."""
        return None

    def _restore(self) -> None:
        whole = None
        if self.workers.rank == 0 and self._checkpoints is not None:
            for step, path in self._checkpoints.newest_first():
                try:
                    with open(path, "rb") as file:
                        whole = self.read(file)
                    break
                except Exception as error:
                    print(f"schedulearn: skipping checkpoint {step}: {error}", file=sys.stderr)  # noqa: T201
        if self.env is None:
            return
        whole = self.workers.broadcast(self._first_state() if whole is None else whole)
        if whole is None:
            return
        self.apply(whole)
        self.restore_place(whole["place"])
        self._answer = whole["answer"]
        self._stopped_at = whole["stopped_at"]
        if self.instruments is not None and whole["noise"] is not None:
            self.instruments.meter.noise.restore(whole["noise"])
        if "guard" in whole:  # checkpoints of older versions have none
            self.guard.restore(whole["guard"])
        self._changes.rate.second_moment = whole.get("second_moment", 1.0)
        self.batch.choose(whole["batch"], whole["why"])
        self.guard.begin(self.batch.total)
        self._choose()
        self._change_batch()
        if whole["random"] is None:
            pass
        elif self.workers.rank < len(whole["random"]):
            self.set_random_state(whole["random"][self.workers.rank])
        else:  # a new worker starts with random numbers that no other worker has
            self.seed_random((self.seed + self.step) * 4096 + self.workers.rank)
        if self.workers.rank == 0 and self.step:
            where = f"epoch {self.epoch}, sample {self.position}, step {self.step}"
            print(f"schedulearn: continues at {where}, with {self.workers.size} workers", flush=True)  # noqa: T201

    def _tell_stall(self, seconds: float) -> None:
        """Report how long training stood still between two attempts.

        Over several hosts this is as exact as their clocks agree."""
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
        if self._answer is not None and not (self.instruments is not None and self.instruments.replays):
            self._changes.choose(self._answer)

    def _change_batch(self) -> None:
        if self._changes.apply():
            self._warm = 0

    def _preempt(self) -> None:
        """Save a checkpoint and end the process: the next attempt continues from here."""
        if threading.current_thread() is threading.main_thread():
            # A second signal would find no handler while Python ends, and would make this look like a failure.
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
        phi = self.instruments.meter.sure_phi if self.instruments is not None else None
        # In samples of the first batch, by which the service counts progress too.
        done = max(0, int(self.trained))
        place = {"epoch": self.epoch, "epochs": self.total_epochs, "position": done, "steps": self.step}
        assert self.env is not None
        return {
            "attempt": self.env.attempt,
            "batch": self.batch.report(),
            "noise_scale": phi,
            "progress": {**place, "epoch_samples": self.samples},
            **self._measurements.take(),
        }

    # --- specific to a framework ---

    def capture(self) -> dict[str, Any]:
        """Return the framework's part of a checkpoint: rank 0's, which is valid for all workers."""
        raise NotImplementedError

    def apply(self, captured: dict[str, Any]) -> None:
        raise NotImplementedError

    def save_shards(self, folder: str) -> None:
        """Write this worker's part of what `capture` leaves out, into `folder`.

        Raises the same error on all workers."""

    def write(self, whole: dict[str, Any], file: BinaryIO) -> None:
        pickle.dump(whole, file, protocol=4)

    def read(self, file: BinaryIO) -> Any:
        return pickle.load(file)  # noqa: S301 - what `write` wrote

    def random_state(self) -> dict[str, Any]:
        return {"python": random.getstate(), "numpy": np.random.get_state()}

    def set_random_state(self, state: dict[str, Any]) -> None:
        random.setstate(state["python"])
        np.random.set_state(state["numpy"])

    def seed_random(self, seed: int) -> None:
        random.seed(seed)
        np.random.seed(seed % (1 << 32))
