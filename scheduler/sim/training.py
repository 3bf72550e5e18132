"""A job that trains in the simulator: how fast it really goes, and what has been learned about it so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.residuals import Residuals, residuals_of
from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, fit
from schedulearn.scheduler.core.model import Allocation
from schedulearn.scheduler.core.planning.remaining_work import progress_speed
from schedulearn.scheduler.sim.application import Application, Floats, Placement
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.workload import Running, TraceJob

NO_TYPE = "gpu"
Shape = tuple[str, int, int, int]  # type, nodes, GPUs, samples a replica by steps of SAME_BATCH
SAME_BATCH = 1.05


class Pass(NamedTuple):
    """Measured: samples a replica, and seconds of a pass without synchronising and with it."""

    local: int
    grad: float
    whole: float


class EventKind(StrEnum):
    """What a job can do by itself."""

    END = "end"
    SEGMENT = "segment"
    """A part of its training is done, and its noise scale changes."""
    MEASURED = "measured"
    """It trained for long enough to know its speed and its noise there."""


@dataclass(frozen=True)
class JobEvent:
    """What a job does next, unless its allocation changes before."""

    at: float
    kind: EventKind
    progress: float = 0.0
    """How far the job has got then, at least."""


@dataclass
class Memory:
    """What is known about a kind of job: its own profile, or that of its whole family."""

    shapes: dict[Shape, Pass] = field(default_factory=dict)
    """What was measured, newest last; as many as `limit`."""
    lengths: list[float] = field(default_factory=list)
    """Total steps of jobs that ended."""
    limit: int = 40
    largest: int = 0
    """GPUs of the largest shape seen."""
    _fits: dict[str, Fit] | None = None
    _before: dict[str, Fit] = field(default_factory=dict)

    def learn(self, shape: Shape, times: Pass) -> None:
        if self.shapes.get(shape) != times:
            self._fits = None
        self.shapes.pop(shape, None)
        self.shapes[shape] = times
        if len(self.shapes) > self.limit:
            del self.shapes[next(iter(self.shapes))]
        self.largest = max(gpus for _, _, gpus, _ in self.shapes)

    def fits(self) -> dict[str, Fit]:
        """GPU type -> what was made of what was seen on it; the type seen first comes first."""
        if self._fits is None:
            by_type: dict[str, list[tuple[Shape, Pass]]] = {}
            for shape, times in self.shapes.items():
                by_type.setdefault(shape[0], []).append((shape, times))
            before = {gpu_type: fitted.model for gpu_type, fitted in self._before.items()}
            self._fits = {t: _fit(tuple(sorted(seen)), before.get(t)) for t, seen in by_type.items()}
            self._before = self._fits
        return self._fits


class Fit(NamedTuple):
    model: StepTimeModel
    residuals: Residuals


@lru_cache(maxsize=20000)
def _fit(seen: tuple[tuple[Shape, Pass], ...], before: StepTimeModel | None) -> Fit:
    rows = ((nodes, gpus, *measured) for (_, nodes, gpus, _), measured in seen)
    columns = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    times = StepTimes(*columns)
    model = fit(times, before)
    return Fit(model, residuals_of(model, times))


@dataclass
class Training:
    """One job. The simulator changes its allocation; `advance` lets time pass."""

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
    """Up to when the numbers above are true."""
    stalled_until: float = 0.0
    placed_at: float = 0.0
    held_since: float = 0.0
    """Since when it runs on what it holds; `placed_at`, or before the simulation began."""
    started_at: float | None = None
    suspended: bool = False
    rate: float = 0.0
    """Steps of progress a second, once the stall is over."""
    pace: float = 1.0
    """Of that rate, beside the other jobs on its GPUs and hosts."""
    batch: tuple[int, int] = (0, 0)
    shaped_since: float = 0.0
    """Since when it has trained in its present shape."""
    steady_since: float = 0.0
    """Since when it has trained with this batch in this part of its training."""
    phi: float | None = None
    """Noise scale that was seen last, samples."""
    phi_of: tuple[int, tuple[int, int]] | None = None
    """The part of the training and the batch of which it is."""
    version: int = 0
    instant: float = -math.inf
    """When the last of its events was, and how many of them, and of those that changed nothing, were at that time."""
    events_at_once: int = 0
    idle_at_once: int = 0
    known: Goodput | None = None
    """Measured before the simulation began, and taken for the truth."""
    profiled: int = 0
    """The most GPUs that it was measured on, with `known`."""
    stalls: float = 0.0
    """Seconds lost to stalls, in all."""
    _goodput: tuple[object, Goodput] | None = None

    def resume(self, state: Running, gpu_type: str, now: float, submitted_at: float) -> None:
        """Goes on where it is when the simulation begins; `submitted_at` on the simulation's clock."""
        self.progress, self.attained = state.progress, state.attained_gpu_seconds
        self.held_for, self.restarts = state.run_seconds, state.restarts
        self.known, self.profiled = state.profile, state.profiled_gpus
        if state.allocation:
            self.started_at = min(submitted_at, now)
            self.give(state.allocation, gpu_type, 0.0, now)
            self.restarts = state.restarts
            self.held_since = now - state.held_seconds

    @property
    def application(self) -> Application:
        return self.job.application

    @property
    def gpus(self) -> int:
        return sum(self.allocation.values())

    @property
    def part(self) -> int:
        return self.application.part_at(self.progress)

    @property
    def placement(self) -> Placement:
        return tuple(sorted(self.allocation.values(), reverse=True))

    @property
    def profile(self) -> Memory:
        """Its own, or that of its family, which holds all that it measured itself."""
        return self.own if self.family is None else self.family

    def advance(self, now: float) -> bool:
        """Lets time pass until `now`; nothing about the allocation changes within. Returns whether it trained."""
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
        """Another allocation from `now` on; it trains again after `stall` seconds."""
        if allocation and self.attained:
            self.restarts += 1
        self.allocation = dict(allocation)
        self.gpu_type = gpu_type
        self.placed_at = self.held_since = now
        self.stalled_until = now + stall
        self.batch = (0, 0)
        self.shaped_since = self.steady_since = self.stalled_until
        if allocation and self.started_at is None:
            self.started_at = now
        self.choose_batch()

    def set_pace(self, pace: float, now: float) -> bool:
        """Whether that changes anything."""
        if pace == self.pace:
            return False
        self.advance(now)
        self.pace = pace
        return True

    def next_event(self, now: float) -> JobEvent | None:
        """None while it does not train."""
        if not self.allocation or self.suspended or self.rate <= 0:
            return None
        begin = max(now, self.stalled_until)
        goal, kind, part = self.application.total_steps, EventKind.END, self.part
        if self.application.times is not None and self.known is None and part < self.application.last_part:
            goal, kind = self.application.end_of(part), EventKind.SEGMENT
        at = begin + max(0.0, goal - self.progress) / (self.rate * self.pace)
        measured = max(begin, self._steady_enough_since() + self.conditions.learn_after)
        return JobEvent(measured, EventKind.MEASURED) if measured < at else JobEvent(at, kind, goal)

    def reach(self, event: JobEvent) -> bool:
        """`event` happens now; for all but the end. Returns whether it brings a profile of a new size.

        The progress is that of the event: computed from times it may fall short by a rounding error, and then the same
        event would come again at the same instant, without end.
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
        """Its worker looks at its batch, where workers do so by the clock."""
        if self.allocation and self.clock > self.stalled_until and self.known is None and not self.suspended:
            self._see_noise(self.part)
            self.choose_batch()

    def _see_noise(self, part: int) -> None:
        if self.application.times is not None and self.known is None and self.batch[0]:
            self.phi = self.application.phi(part, self.gpus * self.batch[0] * (self.batch[1] + 1))
            self.phi_of = part, self.batch

    @property
    def milestones(self) -> tuple[object, ...]:
        """What its events change."""
        return (self.part, self.profiled, self.batch, self.rate, self.phi_of, *self.own.shapes)

    def _steady_enough_since(self) -> float:
        """Since when it has trained in a way that is yet to be measured; infinite: all of it is known."""
        if self.application.times is None:
            return math.inf
        if self.known is not None:
            return self.shaped_since if self.gpus > self.profiled else math.inf
        if self.shape() not in self.own.shapes:
            return self.shaped_since
        if self.conditions.batches_on_ticks:
            return math.inf
        return self.steady_since if self.phi_of != (self.part, self.batch) else math.inf

    @property
    def largest(self) -> int:
        """The most GPUs that it, or its family, was measured on."""
        return self.profiled if self.known is not None else self.profile.largest

    def shape(self) -> Shape:
        # Batches within a few percent of each other tell the same.
        local = round(SAME_BATCH ** round(math.log(max(1, self.batch[0])) / math.log(SAME_BATCH)))
        return (self.gpu_type, len(self.allocation), self.gpus, max(1, local))

    def learn(self) -> bool:
        """Measures the present shape. Returns whether the job had never been seen on so many GPUs."""
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
        times = Pass(self.batch[0], *self.application.times.passes(self.placement, self.batch[0], self._speed))
        self.own.learn(shape, times)
        if self.family is not None:
            self.family.learn(shape, times)
        return news

    def goodput(self) -> Goodput | None:
        """What the scheduler believes of this job now; None before anything was measured."""
        if self.known is not None:
            return self.known
        if self.application.times is None or not self.profile.shapes:
            return None
        fits = self.profile.fits()
        phi = self.application.phi(self.part) if self.phi is None else self.phi
        key = (phi, *fits.items())
        if self._goodput is None or self._goodput[0] != key:
            models = {gpu_type: fitted.model for gpu_type, fitted in fits.items()}
            residuals = {gpu_type: fitted.residuals for gpu_type, fitted in fits.items()}
            known = Goodput(models, phi, self.application.bounds, self.conditions.speeds, residuals=residuals)
            self._goodput = (key, known)
        return self._goodput[1]

    def choose_batch(self) -> None:
        """The batch that the job's worker would choose now, and the true rate at it."""
        if not self.allocation or self.application.times is None:
            self.rate = min(1.0, self.gpus / self.job.required_gpus)
            return
        if self.known is not None:
            samples = progress_speed(self.known, len(self.allocation), self.gpus, self.gpu_type)
            self.rate = samples / self.application.bounds.init_batch
            return
        before, shape = self.batch, self.shape()
        self.batch = self._next_batch()
        if before[0] and self.batch != before:
            self.steady_since = max(self.clock, self.stalled_until)
            if self.shape() != shape:
                self.shaped_since = self.steady_since
        self.rate = self.application.rate(self.part, self.placement, self.batch, self._speed)

    def _next_batch(self) -> tuple[int, int]:
        application, gpus = self.application, self.gpus
        fixed = application.chosen_by_user(gpus)
        if fixed is not None:
            return fixed
        believed = self.goodput()
        if believed is None:
            return self.batch if self.batch[0] else application.split(application.bounds.init_batch, gpus)
        models, speeds = tuple(believed.models.items()), tuple(self.conditions.speeds.items())
        by_noise = _next_batches(
            models, application.bounds, speeds, self.use_efficiency, len(self.allocation), gpus, self.batch,
            self.gpu_type, self.conditions.keep_factor,
        )  # fmt: skip
        return by_noise.get(believed.phi) or by_noise.learn(believed.phi, self._noise_ahead())

    def _noise_ahead(self) -> Floats:
        """What it may see of its noise if it goes on with the present batch."""
        if not self.batch[0]:
            return np.empty(0)
        return self.application.noise.phis(self.gpus * self.batch[0] * (self.batch[1] + 1))

    @property
    def _speed(self) -> float:
        return self.conditions.speeds.get(self.gpu_type, 1.0)


def paces(trainings: Collection[Training], gpus_of: Mapping[str, int], conditions: Conditions) -> dict[str, float]:
    """Job -> its pace beside the others: jobs that share GPUs share what those do, and jobs on several hosts may get in
    each other's way. Which GPUs of a host are shared is not told: all of its jobs count alike. `gpus_of`: hosts whose
    GPUs are shared."""
    running = [training for training in trainings if training.allocation and not training.suspended]
    held: dict[str, int] = {}
    spanning: dict[str, int] = {}
    for training in running:
        for host, gpus in training.allocation.items():
            held[host] = held.get(host, 0) + gpus
            spanning[host] = spanning.get(host, 0) + (len(training.allocation) > 1)
    found = {}
    for training in running:
        crowd = max(held[host] / max(1, gpus_of.get(host, held[host])) for host in training.allocation)
        pace = conditions.sharing / crowd if crowd > 1 else 1.0
        if len(training.allocation) > 1 and any(spanning[host] > 1 for host in training.allocation):
            pace *= 1 - conditions.interference
        found[training.job.id] = pace
    return found


class _NextBatches(dict[float, tuple[int, int]]):
    """What a worker would go on with, by the noise scale that it sees."""

    def __init__(self, choose: Callable[[Floats], list[tuple[int, int]]]) -> None:
        super().__init__()
        self._choose = choose

    def learn(self, phi: float, ahead: Floats) -> tuple[int, int]:
        """For `phi`, and at once, since that takes hardly longer, for all that comes if it is one of `ahead`."""
        phis = ahead if phi in ahead else np.array([phi])
        self.update(zip(phis.tolist(), self._choose(phis), strict=True))
        return self[phi]


@lru_cache(maxsize=10_000)
def _next_batches(
    models: tuple[tuple[str, StepTimeModel], ...], bounds: BatchBounds, speeds: tuple[tuple[str, float], ...],
    use_efficiency: bool, nodes: int, gpus: int, batch: tuple[int, int], gpu_type: str, keep_factor: float,
) -> _NextBatches:  # fmt: skip
    """Jobs of one application at one point of their training choose alike."""
    known = Goodput(dict(models), 0.0, bounds, dict(speeds), use_efficiency)
    return _NextBatches(lambda phis: known.keep_or_change_at(phis, nodes, gpus, *batch, gpu_type, keep_factor))
