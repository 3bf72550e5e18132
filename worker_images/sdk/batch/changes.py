"""Changes of the batch during a run.

Rank 0 chooses a batch, and all workers change to it between two steps. A batch that did harm is taken back together
with the weights."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from schedulearn.metrics.model.batch_rule import GROWTH
from schedulearn.worker.batch.choice import Choice
from schedulearn.worker.batch.learning_rate import LearningRate

if TYPE_CHECKING:
    from schedulearn.worker.run import Run


class BatchChanges:
    def __init__(self, run: Run) -> None:
        self._run = run
        self.rate = LearningRate()
        self._choice: Choice | None = None
        self._measured = 0
        """Gradients that the guard has seen."""
        self._before_growth = b""
        """The framework's state from before the batch last grew, on rank 0; empty: that was long ago."""

    @property
    def pending(self) -> bool:
        """Whether rank 0 has chosen another batch: the others hear of it in the next step."""
        return self._choice is not None

    def choose(self, answer: dict[str, Any]) -> None:
        """Choose a batch by the service's response, on rank 0 only.

        An earlier choice stays if the others have not heard of it yet."""
        run = self._run
        if run.workers.rank != 0 or run.instruments is None or self.pending:
            return
        meter = run.instruments.meter
        # No growth because of a guess.
        grow = GROWTH if run.guard.may_grow and meter.noise.is_sure else 1
        safe = self.rate.largest(self._rule, run.batch.bounds.init_batch, meter.share > 0, run.samples)
        self._choice = run.batch.best(answer, meter.sure_phi, int(min(grow * run.batch.total, safe)))

    def learning_rate_factor(self, samples: int) -> float:
        """Return the factor for a step of `samples` samples: an epoch's last step may be small."""
        return min(self._run.guard.factor, self._target(samples))

    def worth(self) -> float:
        """Return the worth of a sample at the current batch, against one in the first batch."""
        run = self._run
        first, batch = run.batch.bounds.init_batch, run.batch.total
        if run.instruments is None or not run.batch.may_change or batch <= first:
            return 1.0
        return self.rate.progress(self._rule, run.instruments.meter.noise, batch, run.guard.factor) * first / batch

    def watch(self) -> None:
        """Update the learning rate after a step, and leave a batch that does harm."""
        run = self._run
        assert run.instruments is not None
        meter = run.instruments.meter
        noise = meter.noise
        if noise.measured > self._measured:
            self._measured = noise.measured
            run.guard.see_gradient(noise.power)
        self.rate.follow(noise, run.batch.total, meter.share)
        run.guard.step(self._target(run.batch.total))
        if not run.guard.on_trial:
            self._before_growth = b""
        if run.workers.rank != 0 or not run.batch.may_change or self._choice is not None:
            return
        retreat = run.guard.retreat()
        if retreat is not None:
            self._choice = Choice(retreat.total, retreat.why, retreat.severe)

    def apply(self) -> bool:
        """Apply rank 0's choice, on all workers at the same step. Returns False if there is none."""
        run = self._run
        choice = run.workers.broadcast(self._choice)
        self._choice = None
        if choice is None:
            return False
        before = run.batch.total
        if choice.total > before and run.workers.rank == 0:
            file = io.BytesIO()
            state = {"progress": run.progress, "second_moment": self.rate.second_moment}
            run.write({**run.capture(), **state}, file)
            self._before_growth = file.getvalue()
        run.batch.choose(choice.total, choice.why)
        if run.batch.total > before:  # until the learning rate follows, a step makes as much progress as before
            run.tell_worth(run.worth * before / run.batch.total)
        run.guard.begin(run.batch.total)
        if choice.restore:
            self._go_back()
        if run.workers.rank == 0:
            print(f"schedulearn: batch {before} -> {run.batch.total}: {choice.why}", flush=True)  # noqa: T201
        if run.instruments is not None:
            run.instruments.meter.forget_pair()
        return True

    @property
    def _rule(self) -> str:
        return self._run.scaling or "adascale"

    def _target(self, batch: int) -> float:
        """The factor of the learning rate for a step of `batch` samples."""
        run = self._run
        assert run.instruments is not None
        return self.rate.target(self._rule, run.instruments.meter.noise, batch)

    def _go_back(self) -> None:
        """Restore the weights from before the batch grew, where they are still available.

        The position in the data stays."""
        run = self._run
        before = run.workers.broadcast(self._before_growth)
        self._before_growth = b""
        if before:
            state = run.read(io.BytesIO(before))
            run.apply(state)
            run.go_back(state["progress"])
            self.rate.second_moment = state["second_moment"]
        if run.instruments is not None:
            run.instruments.meter.noise.restore(())  # measurements since then say nothing about these weights
