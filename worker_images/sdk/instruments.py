"""Measurements of each step, and their exchange between workers."""

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
"""Steps shorter than this, in seconds, read the message of the previous step.

The message costs longer steps hardly any time, and a delay of one step would be long."""


class StepTime(NamedTuple):
    """Duration of one step."""

    kind: Kind | None
    """None: the step does not count."""
    passes: int
    step_s: float
    sync_s: float
    """Part of `step_s`: seconds of waiting for other workers after this worker's gradients were computed."""


class Instruments:
    """Measuring instruments of one run.

    Code for a framework calls `tell` once this worker's gradients are computed. It sets `sync_s`, and gives `meter` the
    gradients before and after averaging."""

    def __init__(self, run: Run, meter: NoiseMeter) -> None:
        self.meter = meter
        self.sync_s: float | None = 0.0
        """Seconds of this step spent waiting for other workers; None: not measured in this step."""
        self.step_s = 0.0
        """Seconds of the step's micro-steps before the last one."""
        self.replays = False
        """Whether the step was recorded once and is replayed: its batch can't change."""
        self._run = run
        self._workers = run.workers
        self.this: Pass | None = None
        self._message: _Message | None = None
        """Message of this step."""
        self._late: _Message | None = None
        """Message of the previous step, where steps are quick."""
        self._quick = False
        self._began = 0.0

    def regroup(self) -> None:
        """Start over with other workers, between two steps."""
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
        """Return the step times that are known now, of this step or of earlier ones.

        This step ended `seconds` after its last micro-step began. `kind`: what the step counts as; None: it does not
        count."""
        if self.sync_s is not None:
            yield StepTime(kind, passes, self.step_s + seconds, self.sync_s)

    def tell(self) -> None:
        """Start the one small message of each step, if there are other workers."""
        values = [*self.message(), self.meter.local_sqr]
        if self._workers.size == 1:
            self.told(lambda: values)
            return
        for under_way in (self._late, self._message):
            if under_way is not None:
                under_way.sums()  # two messages of the same name can't be under way
        self.told(self._workers.sum(values))

    def told(self, sums: Finish) -> None:
        """Keep `sums`, which returns what the workers told each other in this step, and may wait."""
        self._message = _Message(sums, self.meter.measuring, self.this.samples if self.this is not None else 0)

    def message(self) -> list[float]:
        """Return the message without its last value, this worker's |g|^2."""
        spent = time.perf_counter() - self._began
        told = [self._run.told_worth(), float(self.meter.measuring), self.meter.cost, spent]
        return [*self._run.flags(), *told]

    def finish_step(self) -> list[float]:
        """Return the sums of all workers' `Run.flags`.

        Where steps are quick, the sums are of the previous step, so that no worker waits for a message. Flags that were
        not acted upon are sent again."""
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
        # The message has the cost of the previous measurement. A single worker takes its newest: a pair's second half
        # costs far more.
        self.meter.pace(cost / size if size > 1 else self.meter.cost, step / size, size)
        quick = size > 1 and step / size < QUICK_S
        if self._late is not None and (any(flags) or not quick):
            self._late.sums()  # it repeats the request, and its senders may be gone at the next step
            self._late = None
        self._quick = quick
        return flags


class _Message:
    """Message of one step, and what else is known about the step."""

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
