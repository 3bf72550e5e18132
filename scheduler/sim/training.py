"""A job that trains in the simulator: how fast it really goes, and what has been learned about it so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.noise_scale import efficiency
from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, fit
from schedulearn.scheduler.core.model import Allocation
from schedulearn.scheduler.core.planning.remaining_work import progress_speed
from schedulearn.scheduler.sim.workload import SEGMENTS, Application, Running, TraceJob

NO_TYPE = "gpu"
Shape = tuple[str, int, int, int]  # type, nodes, GPUs, samples a replica


class EventKind(StrEnum):
    """What a job can do by itself."""

    END = "end"
    SEGMENT = "segment"
    """A part of its training is done, and its noise scale changes."""
    MEASURED = "measured"
    """It trained for long enough on its allocation to know its speed there."""


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

    shapes: dict[Shape, tuple[float, float]] = field(default_factory=dict)
    """Measured (T_grad, T_iter) in seconds, newest last; as many as `limit`."""
    lengths: list[float] = field(default_factory=list)
    """Total steps of jobs that ended."""
    limit: int = 40
    _models: dict[str, StepTimeModel] | None = None
    _before: dict[str, StepTimeModel] = field(default_factory=dict)

    def learn(self, shape: Shape, times: tuple[float, float]) -> None:
        if self.shapes.get(shape) != times:
            self._models = None
        self.shapes.pop(shape, None)
        self.shapes[shape] = times
        if len(self.shapes) > self.limit:
            del self.shapes[next(iter(self.shapes))]

    @property
    def largest(self) -> int:
        """GPUs of the largest shape seen."""
        return max((gpus for _, _, gpus, _ in self.shapes), default=0)

    def models(self) -> dict[str, StepTimeModel]:
        """GPU type -> model fitted to what was seen on it; the type seen first comes first."""
        if self._models is None:
            by_type: dict[str, list[tuple[Shape, tuple[float, float]]]] = {}
            for shape, times in self.shapes.items():
                by_type.setdefault(shape[0], []).append((shape, times))
            self._models = {t: _fit(tuple(sorted(seen)), self._before.get(t)) for t, seen in by_type.items()}
            self._before = self._models
        return self._models


@lru_cache(maxsize=20000)
def _fit(seen: tuple[tuple[Shape, tuple[float, float]], ...], before: StepTimeModel | None) -> StepTimeModel:
    rows = ((nodes, gpus, batch, grad, whole) for (_, nodes, gpus, batch), (grad, whole) in seen)
    columns = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return fit(StepTimes(*columns), before)


@dataclass
class Training:
    """One job. The simulator changes its allocation; `advance` lets time pass."""

    job: TraceJob
    speeds: Mapping[str, float]
    """GPU type -> how many times faster than the reference type it computes."""
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
    batch: tuple[int, int] = (0, 0)
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
    def segment(self) -> int:
        return min(SEGMENTS - 1, int(self.progress / self.application.total_steps * SEGMENTS + 1e-9))

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
            self.progress = min(self.application.total_steps, self.progress + trained * self.rate)
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
        if allocation and self.started_at is None:
            self.started_at = now
        self.choose_batch()

    def next_event(self, learn_after: float, now: float) -> JobEvent | None:
        """None while it does not train."""
        if not self.allocation or self.suspended or self.rate <= 0:
            return None
        begin = max(now, self.stalled_until)
        goal, kind = self.application.total_steps, EventKind.END
        if self.application.model is not None and self.known is None and self.segment < SEGMENTS - 1:
            goal, kind = (self.segment + 1) / SEGMENTS * goal, EventKind.SEGMENT
        at = begin + max(0.0, goal - self.progress) / self.rate
        if self._learns():
            measured = max(begin, self.stalled_until + learn_after)
            if measured < at:
                return JobEvent(measured, EventKind.MEASURED)
        return JobEvent(at, kind, goal)

    def reach(self, event: JobEvent) -> bool:
        """`event` happens now; for all but the end. Returns whether it brings a profile of a new size.

        The progress is that of the event: computed from times it may fall short by a rounding error, and then the same
        event would come again at the same instant, without end.
        """
        self.progress = max(self.progress, event.progress)
        news = self.learn() if event.kind is EventKind.MEASURED else False
        self.choose_batch()
        return news

    @property
    def milestones(self) -> tuple[object, ...]:
        """What its events change."""
        return (self.segment, self.profiled, self.batch, self.rate, *self.own.shapes)

    def _learns(self) -> bool:
        """Whether the present allocation is yet to be measured."""
        if self.application.model is None:
            return False
        return self.gpus > self.profiled if self.known is not None else self.shape() not in self.own.shapes

    @property
    def largest(self) -> int:
        """The most GPUs that it, or its family, was measured on."""
        return self.profiled if self.known is not None else self.profile.largest

    def shape(self) -> Shape:
        # Batches within a quarter of each other tell the same.
        local = round(1.25 ** round(math.log(max(1, self.batch[0])) / math.log(1.25)))
        return (self.gpu_type, len(self.allocation), self.gpus, max(1, local))

    def learn(self) -> bool:
        """Measures the present shape. Returns whether the job had never been seen on so many GPUs."""
        if not self.allocation or not self._learns():
            return False
        if self.known is not None:
            self.profiled = self.gpus
            return True
        shape = self.shape()
        news = self.gpus > self.own.largest or shape[1:3] not in {s[1:3] for s in self.own.shapes}
        model = self._true_model(self.gpu_type)
        times = (float(model.grad_time(shape[3])), float(model.iter_time(shape[1], shape[2], shape[3])))
        self.own.learn(shape, times)
        if self.family is not None:
            self.family.learn(shape, times)
        return news

    def goodput(self) -> Goodput | None:
        """What the scheduler believes of this job now; None before anything was measured."""
        if self.known is not None:
            return self.known
        if self.application.model is None or not self.profile.shapes:
            return None
        models = self.profile.models()
        key = (self.segment, *models.items())
        if self._goodput is None or self._goodput[0] != key:
            phi = self.application.phi(self.segment)
            self._goodput = (key, Goodput(models, phi, self.application.bounds, self.speeds))
        return self._goodput[1]

    def choose_batch(self) -> None:
        """The batch that the job's worker would choose now, and the true rate at it."""
        if not self.allocation or self.application.model is None:
            self.rate = min(1.0, self.gpus / self.job.required_gpus)
            return
        if self.known is not None:
            samples = progress_speed(self.known, len(self.allocation), self.gpus, self.gpu_type)
            self.rate = samples / self.application.bounds.init_batch
            return
        nodes, gpus = len(self.allocation), self.gpus
        bounds, believed = self.application.bounds, self.goodput()
        if believed is not None:
            models, speeds = tuple(believed.models.items()), tuple(self.speeds.items())
            self.batch = _next_batch(
                models, believed.phi, bounds, speeds, self.use_efficiency, nodes, gpus, self.batch, self.gpu_type
            )
        elif not self.batch[0]:
            local = max(bounds.min_local, -(-bounds.init_batch // gpus))
            steps = -(-local // bounds.max_local) - 1 if bounds.max_local else 0
            self.batch = (-(-local // (steps + 1)), steps)
        samples = gpus * self.batch[0] * (self.batch[1] + 1)
        step = float(self._true_model(self.gpu_type).step_time(nodes, gpus, *self.batch))
        phi = self.application.phi(self.segment)
        gain = float(efficiency(phi, bounds.init_batch, samples))
        self.rate = samples / bounds.init_batch * gain / step

    def _true_model(self, gpu_type: str) -> StepTimeModel:
        assert self.application.model is not None
        return on_type(self.application.model, self.speeds.get(gpu_type, 1.0))


@lru_cache(maxsize=100_000)
def _next_batch(
    models: tuple[tuple[str, StepTimeModel], ...], phi: float, bounds: BatchBounds,
    speeds: tuple[tuple[str, float], ...], use_efficiency: bool, nodes: int, gpus: int, batch: tuple[int, int],
    gpu_type: str,
) -> tuple[int, int]:  # fmt: skip
    """What a worker would go on with. Jobs of one application at one point of their training choose alike."""
    known = Goodput(dict(models), phi, bounds, dict(speeds), use_efficiency)
    return known.keep_or_change(nodes, gpus, *batch, gpu_type)


@lru_cache(maxsize=1000)
def on_type(model: StepTimeModel, speed: float) -> StepTimeModel:
    """The model on a GPU that computes `speed` times as fast; networks stay as they are."""
    return replace(model, alpha_grad=model.alpha_grad / speed, beta_grad=model.beta_grad / speed)
