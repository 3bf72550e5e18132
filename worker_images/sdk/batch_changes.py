"""How a run changes its batch: chosen by rank 0, made by all workers between two steps, and taken back with the weights
where it did harm."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from schedulearn.metrics.model.noise_scale import learning_rate_factor
from schedulearn.worker.batch import Choice

if TYPE_CHECKING:
    from schedulearn.worker.run import Run


class BatchChanges:
    def __init__(self, run: Run) -> None:
        self._run = run
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
        # At most twice the batch at a time, and none on the account of a guess.
        grow = 2 if run.guard.may_grow and meter.noise.is_sure else 1
        self._choice = run.batch.best(answer, meter.sure_phi, grow * run.batch.total)

    def learning_rate_factor(self, samples: int) -> float:
        """For a step of so many: an epoch's last one may be small."""
        return min(self._run.guard.factor, self._worth(samples))

    def watch(self) -> None:
        """After a step: the learning rate goes on to where it should be, and the batch goes back if it does harm."""
        run = self._run
        assert run.instruments is not None
        noise = run.instruments.meter.noise
        if noise.measured > self._measured:
            self._measured = noise.measured
            run.guard.see_gradient(noise.power)
        run.guard.step(self._worth(run.batch.total))
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
            run.write(run.capture(), file)
            self._before_growth = file.getvalue()
        run.batch.choose(choice.total, choice.why)
        run.guard.begin(run.batch.total)
        if choice.restore:
            self._go_back()
        if run.workers.rank == 0:
            print(f"schedulearn: batch {before} -> {run.batch.total}: {choice.why}", flush=True)  # noqa: T201
        if run.instruments is not None:
            run.instruments.meter.forget_pair()
        return True

    def _worth(self, batch: int) -> float:
        """The factor of the learning rate for a step of `batch` samples."""
        run = self._run
        assert run.instruments is not None
        noise = run.instruments.meter.noise
        if batch <= noise.init_batch:
            return 1.0
        return learning_rate_factor(run.scaling or "adascale", noise, batch)

    def _go_back(self) -> None:
        """To the weights from before the batch grew, where they are still at hand; the data go on."""
        run = self._run
        before = run.workers.broadcast(self._before_growth)
        self._before_growth = b""
        if before:
            run.apply(run.read(io.BytesIO(before)))
        if run.instruments is not None:
            run.instruments.meter.noise.restore(())  # what was measured since says nothing about these weights
