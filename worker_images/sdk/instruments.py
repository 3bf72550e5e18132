"""What is measured in each step, and told to the other workers with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Iterable, NamedTuple

from schedulearn.worker.batch.noise_meter import NoiseMeter
from schedulearn.worker.measurements import Kind
from schedulearn.worker.order import Pass
from schedulearn.worker.workers import Finish

if TYPE_CHECKING:
    from schedulearn.worker.run import Run

QUICK_S = 0.2
"""Longer steps don't feel the message, and it would be long until they hear it."""


class StepTime(NamedTuple):
    """How long one step took."""

    kind: Kind | None
    """None: a step that is not to count."""
    passes: int
    step_s: float
    sync_s: float
    """Of it, waiting for other workers once this worker's gradients were computed."""


class Instruments:
    """Of one run. What is specific to a framework calls `tell` once this worker's gradients are computed, sets
    `sync_s`, and gives `meter` the gradients before and after averaging."""

    def __init__(self, run: Run, meter: NoiseMeter) -> None:
        self.meter = meter
        self.sync_s: float | None = 0.0
        """Seconds of this step spent waiting for other workers; None: not measured in this one."""
        self.step_s = 0.0
        """Seconds of the step's passes before the last one."""
        self.replays = False
        """The step was recorded once and runs again as it was: its batch can't change."""
        self._run = run
        self._workers = run.workers
        self.this: Pass | None = None
        self._message: _Message | None = None
        """Of this step."""
        self._late: _Message | None = None
        """Of the step before, where steps are quick."""
        self._quick = False
        self._began = 0.0

    def regroup(self) -> None:
        """Between two steps, when the run has got other workers."""
        self._workers = self._run.workers
        self._quick = False
        self.meter.restart()

    def begin_pass(self, this: Pass) -> None:
        self.this = this
        self._began = time.perf_counter()
        if this.first:
            self.step_s = self.sync_s = 0.0
            self.meter.begin()

    def step_times(self, kind: Kind | None, passes: int, seconds: float) -> Iterable[StepTime]:
        """This step is done, `seconds` after its last pass began: the times that are known now, of this step or of
        those before it. `kind`: what it counts as, if it is to count."""
        if self.sync_s is not None:
            yield StepTime(kind, passes, self.step_s + seconds, self.sync_s)

    def tell(self) -> None:
        """Starts the one small message that goes with each step, if there is anybody to tell."""
        values = [*self.message(), self.meter.local_sqr]
        if self._workers.size == 1:
            self.told(lambda: values)
            return
        for under_way in (self._late, self._message):
            if under_way is not None:
                under_way.sums()  # there can't be two of one name
        self.told(self._workers.sum(values))

    def told(self, sums: Finish) -> None:
        """By `sums`, which may wait for them, workers hear what they told each other in this step."""
        self._message = _Message(sums, self.meter.measuring, self.this.samples if self.this is not None else 0)

    def message(self) -> list[float]:
        """All of it but |g|^2 of this worker, which comes last."""
        spent = time.perf_counter() - self._began
        told = [self._run.told_worth(), float(self.meter.measuring), self.meter.cost, spent]
        return [*self._run.flags(), *told]

    def finish_step(self) -> list[float]:
        """The sums of what the workers told each other, by `Run.flags`: in this step, or in the one before where steps
        are quick, so that nobody waits for a message. What was not acted upon is told again."""
        message, self._message = self._message, None
        if message is not None:
            message.total_sqr = self.meter.total_sqr
            if self._quick:
                message, self._late = self._late, message
        if message is None:  # the script made no step, or it is the first quick one
            return [0.0, 0.0, 0.0]
        size = self._workers.size
        *flags, worth, measured, cost, step, local_sqr = message.sums()
        self._run.tell_worth(worth)
        if message.measuring:
            self.meter.finish(local_sqr, message.total_sqr, measured, size, message.samples)
        # Others have told what the measurement before this one cost; alone, a pair's second half costs far more.
        self.meter.pace(cost / size if size > 1 else self.meter.cost, step / size, size)
        quick = size > 1 and step / size < QUICK_S
        if self._late is not None and (any(flags) or not quick):
            self._late.sums()  # asks for the same again; and those who told it may not be there at the next step
            self._late = None
        self._quick = quick
        return flags


class _Message:
    """Of one step, with what else is known of it."""

    def __init__(self, finish: Finish, measuring: bool, samples: int) -> None:
        self._finish = finish
        self._sums: list[float] | None = None
        self.measuring = measuring
        self.samples = samples
        self.total_sqr = 0.0

    def sums(self) -> list[float]:
        if self._sums is None:
            self._sums = self._finish()
        return self._sums
