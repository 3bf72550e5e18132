"""How a run changes its batch: chosen by rank 0, made by all workers between two steps, and taken back with the weights
where it did harm."""

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
        """The framework's state from before the batch grew last, on rank 0; empty: long ago."""

    @property
    def pending(self) -> bool:
        """Rank 0 has chosen another batch: the others hear of it with the next step."""
        return self._choice is not None

    def choose(self, answer: dict[str, Any]) -> None:
        """By what the service has told. Rank 0 alone decides; what it chose before, the others are about to hear."""
        run = self._run
        if run.workers.rank != 0 or run.instruments is None or self.pending:
            return
        meter = run.instruments.meter
        # No growth on the account of a guess.
        grow = GROWTH if run.guard.may_grow and meter.noise.is_sure else 1
        safe = self.rate.largest(self._rule, run.batch.bounds.init_batch, meter.share > 0, run.samples)
        self._choice = run.batch.best(answer, meter.sure_phi, int(min(grow * run.batch.total, safe)))

    def learning_rate_factor(self, samples: int) -> float:
        """For a step of so many: an epoch's last one may be small."""
        return min(self._run.guard.factor, self._target(samples))

    def worth(self) -> float:
        """Of a sample in a step of the batch of now, against one in the first batch."""
        run = self._run
        first, batch = run.batch.bounds.init_batch, run.batch.total
        if run.instruments is None or not run.batch.may_change or batch <= first:
            return 1.0
        return self.rate.progress(self._rule, run.instruments.meter.noise, batch, run.guard.factor) * first / batch

    def watch(self) -> None:
        """After a step: the learning rate goes on to where it should be, and the batch goes back if it does harm."""
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
        """Makes rank 0's choice, on all workers at the same step. False if there is none."""
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
        """To the weights from before the batch grew, where they are still at hand; the data go on."""
        run = self._run
        before = run.workers.broadcast(self._before_growth)
        self._before_growth = b""
        if before:
            state = run.read(io.BytesIO(before))
            run.apply(state)
            run.go_back(state["progress"])
            self.rate.second_moment = state["second_moment"]
        if run.instruments is not None:
            run.instruments.meter.noise.restore(())  # what was measured since says nothing about these weights
