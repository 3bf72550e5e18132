"""Training job in the simulator: its true speed and its known speed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from schedulearn.metrics.model.batch_rule import GROWTH, MIN_STEPS, ramp_steps
from schedulearn.metrics.model.goodput import Goodput
from schedulearn.scheduler.core.model import Allocation
from schedulearn.scheduler.core.planning.remaining_work import progress_speed
from schedulearn.scheduler.sim.application import Application, Floats, Placement
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.jobs.batch_choice import NextBatches, Way, batch_choice
from schedulearn.scheduler.sim.jobs.memory import Fit, MeasuredPass, Memory, Shape, alike
from schedulearn.scheduler.sim.workload import Running, TraceJob

NO_TYPE = "gpu"


class EventKind(StrEnum):
    """Events of a job."""

    END = "end"
    SEGMENT = "segment"
    """A part of its training is done, and its noise scale changes."""
    MEASURED = "measured"
    """It has trained long enough to know its speed and its noise scale."""


@dataclass(frozen=True)
class JobEvent:
    """Next event of a job, unless its allocation changes before."""

    at: float
    kind: EventKind
    progress: float = 0.0
    """Minimum progress of the job at that time."""


@dataclass
class Training:
    """Training job. The simulator changes its allocation; `advance` lets time pass."""

    job: TraceJob
    conditions: Conditions
    own: Memory = field(default_factory=Memory)
    family: Memory | None = None
    use_efficiency: bool = True
    """False: its worker chooses the batch by throughput alone, as under the metric `thesis-speed`."""

    allocation: Allocation = field(default_factory=dict)
    gpu_type: str = NO_TYPE
    progress: float = 0.0
    attained: float = 0.0
    """GPU-seconds held."""
    held_for: float = 0.0
    """Seconds for which it held GPUs."""
    restarts: int = 0
    clock: float = 0.0
    """Time up to which the numbers above are true."""
    stalled_until: float = 0.0
    placed_at: float = 0.0
    held_since: float = 0.0
    """Start of its current allocation: `placed_at`, or before the simulation began."""
    started_at: float | None = None
    suspended: bool = False
    rate: float = 0.0
    """Steps of progress per second, once the stall is over."""
    pace: float = 1.0
    """Share of that rate that it reaches beside the other jobs on its GPUs and hosts."""
    batch: int = 0
    """Samples of a step over all of its GPUs; 0: it has none."""
    chosen: int = 0
    """The batch that its workers go on with on other GPUs; 0: the initial one."""
    chosen_at: float = 0.0
    """When it began to train with that batch."""
    shaped_since: float = 0.0
    """When it began to train in its present shape."""
    steady_since: float = 0.0
    """When it began to train with this batch in this part of its training."""
    phi: float | None = None
    """Noise scale that was seen last, samples."""
    phi_of: tuple[int, int] | None = None
    """The part of the training, and the batch, that `phi` belongs to."""
    version: int = 0
    instant: float = -math.inf
    """Time of its last event. The next two fields count its events at that time, and those that changed nothing."""
    events_at_once: int = 0
    idle_at_once: int = 0
    known: Goodput | None = None
    """Goodput measured before the simulation began; taken as true."""
    profiled: int = 0
    """Maximum number of GPUs that it was measured on, with `known`."""
    stalls: float = 0.0
    """Seconds lost to stalls, in all."""
    gpus: int = 0
    placement: Placement = ()
    """Both follow from the allocation. They are stored because they are read far more often than it changes."""
    application: Application = field(init=False)
    profile: Memory = field(init=False)
    """Its own profile, or that of its family, which includes its own measurements."""
    _part: tuple[float, int] = (-1.0, 0)
    """A progress, and the part of the training at it."""
    _last_part: int = 0
    _speed: float = 1.0
    _rates: list[float] | None = None
    """Rates in each part of the training, with the present placement and batch."""
    _step_seconds: float = 0.0
    _choices: tuple[dict[str, Fit], int, Way, NextBatches] | None = None
    """Its worker's table of next batches, after the values that it is valid for."""

    def __post_init__(self) -> None:
        self.application = self.job.application
        self.profile = self.own if self.family is None else self.family
        self._last_part = self.application.last_part

    def resume(self, state: Running, gpu_type: str, now: float, submitted_at: float) -> None:
        """Set the state at the start of the simulation; `submitted_at` is on the simulation's clock."""
        self.progress, self.attained = state.progress, state.attained_gpu_seconds
        self.held_for, self.restarts = state.run_seconds, state.restarts
        self.known, self.profiled = state.profile, state.profiled_gpus
        if state.allocation:
            self.started_at = min(submitted_at, now)
            self.give(state.allocation, gpu_type, 0.0, now)
            self.restarts = state.restarts
            self.held_since = now - state.held_seconds

    @property
    def part(self) -> int:
        if self._part[0] != self.progress:
            self._part = self.progress, self.application.part_at(self.progress)
        return self._part[1]

    def advance(self, now: float) -> bool:
        """Let time pass until `now`, with an unchanged allocation. Return whether the job trained."""
        held, trained = now - self.clock, 0.0
        if held > 0 and self.allocation:
            self.attained += held * self.gpus
            self.held_for += held
            trained = 0.0 if self.suspended else max(0.0, now - max(self.clock, self.stalled_until))
            self.stalls += held - trained if not self.suspended else 0.0
            self.progress = min(self.application.total_steps, self.progress + trained * self.rate * self.pace)
        self.clock = max(self.clock, now)
        return trained * self.rate > 0

    def give(self, allocation: Allocation, gpu_type: str, stall: float, now: float) -> None:
        """Change the allocation at `now`. The job trains again after `stall` seconds."""
        if allocation and self.attained:
            self.restarts += 1
        if self.allocation and not allocation and not self.job.elastic:
            self.progress = 0.0
        self.allocation = dict(allocation)
        self.gpu_type = gpu_type
        self.gpus = sum(allocation.values())
        self.placement = tuple(sorted(allocation.values(), reverse=True))
        self._speed = self.conditions.speeds.get(gpu_type, 1.0)
        self._rates = self._choices = None
        self.placed_at = self.held_since = now
        self.stalled_until = now + stall
        self.batch = 0
        self.shaped_since = self.steady_since = self.stalled_until
        if self.conditions.careful_batches:
            self.phi_of = None  # on other GPUs another batch may be best, once it has trained there
        if allocation and self.started_at is None:
            self.started_at = now
        self.choose_batch()

    def set_pace(self, pace: float, now: float) -> bool:
        """Set the pace; return whether it changed."""
        if pace == self.pace:
            return False
        self.advance(now)
        self.pace = pace
        return True

    def next_event(self, now: float) -> JobEvent | None:
        """Return the next event; None while the job does not train."""
        if not self.allocation or self.suspended or self.rate <= 0:
            return None
        begin = max(now, self.stalled_until)
        goal, kind, part = self.application.total_steps, EventKind.END, self.part
        if self.application.times is not None and self.known is None and part < self._last_part:
            goal, kind = self.application.end_of(part), EventKind.SEGMENT
        at = begin + max(0.0, goal - self.progress) / (self.rate * self.pace)
        measured = max(begin, self._measured_at())
        return JobEvent(measured, EventKind.MEASURED) if measured < at else JobEvent(at, kind, goal)

    def reach(self, event: JobEvent) -> bool:
        """Handle any `event` but the end, now. Return whether it brings a profile of a new size.

        The progress is set to that of the event. Computed from times, it may fall short by a rounding error. The same
        event would then come again at the same instant, without end.
        """
        ended = self.part
        self.progress = max(self.progress, event.progress)
        if event.kind is EventKind.MEASURED:
            news = self.learn()
            if not self.conditions.batches_on_ticks:
                self.choose_batch()
            return news
        self.steady_since = max(self.clock, self.stalled_until)
        self._see_noise(min(ended, self.part - 1))
        self.choose_batch()
        return False

    def tick(self) -> None:
        """Let the worker review its batch, under conditions where workers do so by the clock."""
        if self.allocation and self.clock > self.stalled_until and self.known is None and not self.suspended:
            self._see_noise(self.part)
            self.choose_batch()

    def _see_noise(self, part: int) -> None:
        if not self._may_grow:
            return
        if self.application.times is not None and self.known is None and self.batch:
            self.phi = self.application.phi(part, self.batch)
            self.phi_of = part, self.batch

    @property
    def milestones(self) -> tuple[object, ...]:
        """Values that its events change. The last shape is the newest measurement."""
        return (self.part, self.profiled, self.batch, self.rate, self.phi_of, next(reversed(self.own.shapes), None))

    def _measured_at(self) -> float:
        """Return when the next measurement will be complete; infinite if everything is known."""
        soon = self.conditions.learn_after
        if self.application.times is None:
            return math.inf
        if self.known is not None:
            return self.shaped_since + soon if self.gpus > self.profiled else math.inf
        if self.shape() not in self.own.shapes:
            return self.shaped_since + soon
        if self.conditions.batches_on_ticks or self.phi_of == (self.part, self.batch):
            return math.inf
        return max(self.steady_since + soon, self._may_grow_at)

    @property
    def _may_grow_at(self) -> float:
        """Time at which it has made as many steps at its batch as the SDK requires."""
        return self.chosen_at + MIN_STEPS * self._step_seconds if self.conditions.careful_batches else 0.0

    @property
    def _may_grow(self) -> bool:
        return self.clock >= self._may_grow_at - 1e-6

    @property
    def largest(self) -> int:
        """Maximum number of GPUs that it, or its family, was measured on."""
        return self.profiled if self.known is not None else self.profile.largest

    @property
    def local(self) -> int:
        """Samples of one micro-step on the GPU that has the most."""
        return self.application.bounds.split(self.batch, self.gpus).atomic

    def shape(self) -> Shape:
        return (self.gpu_type, len(self.allocation), self.gpus, alike(self.local))

    def learn(self) -> bool:
        """Measure the present shape. Return whether its size is new for the job."""
        if not self.allocation or self.application.times is None:
            return False
        if self.known is not None:
            news, self.profiled = self.gpus > self.profiled, max(self.profiled, self.gpus)
            return news
        self._see_noise(self.part)
        shape = self.shape()
        if shape in self.own.shapes:
            return False
        news = self.gpus > self.own.largest or shape[1:3] not in {s[1:3] for s in self.own.shapes}
        times = MeasuredPass(self.local, *self.application.times.passes(self.placement, self.local, self._speed))
        self.own.learn(shape, times)
        if self.family is not None:
            self.family.learn(shape, times)
        return news

    def goodput(self) -> Goodput | None:
        """Return the goodput that the scheduler assumes now; None before any measurement."""
        if self.known is not None:
            return self.known
        if self.application.times is None or not self.profile.shapes:
            return None
        return self.profile.goodput(
            self._sure_phi, self.application.bounds, self.conditions.speeds, self.conditions.efficiency_needed
        )

    @property
    def _believed(self) -> float:
        """Share of its noise scale that its workers use."""
        return 1.0 if self.application.noise_is_sure else self.conditions.noise_believed

    @property
    def _sure_phi(self) -> float:
        """Noise scale that its workers use."""
        return self._believed * (self.application.phi(self.part) if self.phi is None else self.phi)

    def choose_batch(self) -> None:
        """Set the batch that the job's worker would choose now, and the true rate with it."""
        if not self.allocation or self.application.times is None:
            self.rate = min(1.0, self.gpus / self.job.required_gpus)
            return
        if self.known is not None:
            samples = progress_speed(self.known, len(self.allocation), self.gpus, self.gpu_type)
            self.rate = samples / self.application.bounds.init_batch
            return
        batch = self._next_batch()
        if batch != self.batch:
            self._change_batch(batch)
        if self._rates is None:
            sure, application = self._believed, self.application
            self._rates = application.rates(self.placement, self.batch, self._speed, sure).tolist()
            self._step_seconds = application.step(self.placement, self.batch, self._speed)[1]
        self.rate = self._rates[self.part]

    def _change_batch(self, batch: int) -> None:
        before, shape = self.batch, self.shape() if self.batch else None
        self.batch, self._rates = batch, None
        if before == 0:  # its workers have just started
            return
        self.chosen = batch
        self.chosen_at = self.steady_since = max(self.clock, self.stalled_until)
        if self.shape() != shape:
            self.shaped_since = self.steady_since
        if self.conditions.careful_batches:
            step = self.application.step(self.placement, batch, self._speed)[1]
            self.stalled_until = self.steady_since + ramp_steps(before, batch) * step

    def _next_batch(self) -> int:
        application = self.application
        if application.fixed_batch is not None:
            return application.fixed_batch
        careful = self.conditions.careful_batches
        if not self.profile.shapes or (careful and (self.phi is None or self.batch == 0)):
            return self.batch or application.bounds.split(self._first_batch, self.gpus).batch
        phi, choices = self._sure_phi, self._next_batches()
        return choices.get(phi) or choices.learn(phi, self._noise_ahead())

    @property
    def _first_batch(self) -> int:
        """Batch with which its workers start."""
        return (self.chosen if self.conditions.careful_batches else 0) or self.application.bounds.init_batch

    def _next_batches(self) -> NextBatches:
        fits, conditions = self.profile.fits(), self.conditions
        largest = self.batch * (GROWTH if self._may_grow else 1.0)
        careful = conditions.careful_batches
        way = Way(self.use_efficiency, conditions.keep_factor, careful, conditions.efficiency_needed, largest)
        if self._choices is None or self._choices[0] is not fits or self._choices[1:3] != (self.batch, way):
            models = tuple((gpu_type, fitted.model) for gpu_type, fitted in fits.items())
            found = batch_choice(
                models, self.application.bounds, tuple(conditions.speeds.items()), way,
                len(self.allocation), self.gpus, self.batch, self.gpu_type,
            )  # fmt: skip
            self._choices = fits, self.batch, way, found
        return self._choices[3]

    def _noise_ahead(self) -> Floats:
        """Return the noise scales that the job may see if it keeps the present batch."""
        return self._believed * self.application.noise.phis(self.batch) if self.batch else np.empty(0)
