"""A discrete-event simulator of the scheduler: the same policies on the same snapshots, without the waiting.

It plays arrivals, restarts, profiling, batch sizes and the change of noise scales; hosts do not fail in it.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from schedulearn.scheduler.domain import HostView, JobView, Plan, Snapshot
from schedulearn.scheduler.lengths import pace
from schedulearn.scheduler.policy import Policy, plan_faults, resizes
from schedulearn.scheduler.sim.switching import HostSwitch
from schedulearn.scheduler.sim.training import NO_TYPE, Memory, Training
from schedulearn.scheduler.sim.workload import TraceJob


@dataclass(frozen=True)
class Conditions:
    """How the cluster behaves. The defaults are what this service does; `POLLUX` is what OSDI 2021 simulated."""

    interval: float = 60.0
    """Seconds between decisions."""
    on_events: bool = True
    """Whether arrivals, ends and new profiles also bring a decision, as in the service."""
    gap: float = 0.0
    """Seconds that lie between two decisions at least."""
    cold_start: float = 10.0
    """Seconds from a job's first GPUs to its first step."""
    stall_up: float = 5.0
    """Seconds without training when a job grows, moves or comes back."""
    stall_down: float = 1.0
    """Seconds without training when a job gives up some of its GPUs."""
    learn_after: float = 30.0
    """Seconds of training after which an allocation is measured."""
    family_memory: bool = True
    """Whether jobs of one application share what was learned."""
    lengths: str = "unknown"
    """`declared`: jobs tell their work; `predicted`: by the mean of the family; `unknown`."""
    length_error: float = 1.0
    """Declared work is wrong by up to this factor, either way."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """GPU type -> how many times as fast as the reference it computes; 1 where not named."""
    seed: int = 0
    scaling: bool = False
    """Whether hosts are switched off and on as the policy wants."""
    scale_window: float = 600.0
    """Seconds for which fewer hosts must do before one is switched off."""
    boot: float = 180.0
    """Seconds from the wish for a host until it is up."""


POLLUX = Conditions(
    on_events=False, cold_start=30.0, stall_up=30.0, stall_down=30.0, family_memory=False,
)  # fmt: skip
"""Pollux, OSDI 2021, section 5.3: a decision a minute, 30 seconds a restart, nothing known of a job that comes."""

SAME_TIME_S = 1e-6


@dataclass(frozen=True)
class Held:
    """Who had which GPUs when; for plots and for host-hours."""

    job: str
    allocation: Mapping[str, int]
    begin: float
    end: float


@dataclass(frozen=True)
class Outcome:
    """One job's fate. Times are seconds of the trace; `ended_at` is infinite for a job that could never run."""

    job: TraceJob
    started_at: float
    ended_at: float
    gpu_seconds: float
    restarts: int
    stalls: float


@dataclass(frozen=True)
class Run:
    """What a simulation gives: one `Outcome` a job, who held what, and what deciding cost."""

    outcomes: tuple[Outcome, ...]
    held: tuple[Held, ...]
    hosts: tuple[HostView, ...]
    decision_seconds: tuple[float, ...]
    desired_hosts: tuple[tuple[float, int], ...]
    """(time, hosts wanted), for policies that say so."""
    on: tuple[tuple[float, float], ...] | None = None
    """(begin, end) of every time for which a host was on; None: all were, all the time."""


class Simulation:
    """One policy on one trace. `run` plays it to its end, or until `stop(now)`; `progress(done, total)` is told of
    every job that ends."""

    def __init__(
        self,
        policy: Policy,
        jobs: Sequence[TraceJob],
        hosts: Sequence[HostView],
        conditions: Conditions | None = None,
        *,
        progress: Callable[[int, int], None] = lambda done, total: None,
        memory: Mapping[str, Memory] | None = None,
        start: float = 0.0,
        stop: Callable[[float], bool] = lambda now: False,
    ) -> None:
        self.policy, self.hosts = policy, tuple(hosts)
        self.conditions = conditions or Conditions()
        self.progress = progress
        self.stop = stop
        self.now = start
        self.caps_growth = resizes(policy)
        self.use_efficiency = bool(getattr(policy, "use_efficiency", True))
        self.types = {host.id: host.gpu_type for host in hosts}
        scaled = self.conditions
        self.switch = HostSwitch(hosts, scaled.scale_window, scaled.boot, start) if scaled.scaling else None
        self.memory: dict[str, Memory] = dict(memory or {})
        self.active: dict[str, Training] = {}
        self.outcomes: list[Outcome] = []
        self.held: list[Held] = []
        self.decision_seconds: list[float] = []
        self.desired: list[tuple[float, int]] = []
        self.last_host: str | None = None
        self.review_at: float | None = None
        self._decided_at = -math.inf
        self._serial = itertools.count()
        self._events: list[tuple[float, int, str, int]] = []  # time, tie-breaker, job or "" for a tick, version
        self._arrivals = sorted(jobs, key=lambda job: (job.submitted_at, job.id), reverse=True)
        self._total = len(jobs)
        self._errors = _length_errors(jobs, self.conditions)

    def run(self) -> Run:
        while self._arrivals and self._arrivals[-1].running is not None and self._arrivals[-1].submitted_at <= self.now:
            self._arrive(self._arrivals.pop())
        next_tick = self.now
        while (self._arrivals or self.active) and not self.stop(self.now):
            arrival = self._arrivals[-1].submitted_at if self._arrivals else math.inf
            event = self._events[0][0] if self._events else math.inf
            review = self.review_at if self.review_at is not None else math.inf
            self.now = max(self.now, min(arrival, event, review, next_tick if self.active else math.inf))
            decide = False
            while self._arrivals and self._arrivals[-1].submitted_at <= self.now + SAME_TIME_S:
                self._arrive(self._arrivals.pop())
                decide = self.conditions.on_events
            while self._events and self._events[0][0] <= self.now + SAME_TIME_S:
                _, _, job_id, version = heapq.heappop(self._events)
                decide |= self._job_event(job_id, version) and self.conditions.on_events
            if self.now + SAME_TIME_S >= next_tick or not self.active:
                decide |= bool(self.active)
                next_tick = (math.floor(self.now / self.conditions.interval + 1e-9) + 1) * self.conditions.interval
            if self.review_at is not None and self.now + SAME_TIME_S >= self.review_at:
                decide |= bool(self.active)
                self.review_at = None
            if decide and self.now + SAME_TIME_S < self._decided_at + self.conditions.gap:
                decide, self.review_at = False, self._decided_at + self.conditions.gap
            if decide and not self._decide() and not self._arrivals and not self._events:
                break  # nothing runs, nothing comes: whoever waits would wait for ever
        for training in self.active.values():
            self._release(training)
            self._record(training, math.inf)
        self.outcomes.sort(key=lambda outcome: (outcome.job.submitted_at, outcome.job.id))
        return Run(
            tuple(self.outcomes),
            tuple(self.held),
            self.hosts,
            tuple(self.decision_seconds),
            tuple(self.desired),
            self.switch.finish(self.now) if self.switch is not None else None,
        )

    def _arrive(self, job: TraceJob) -> None:
        family = None
        if self.conditions.family_memory and job.application.model is not None:
            family = self.memory.setdefault(job.application.name, Memory())
        training = Training(
            job, self.conditions.speeds, family=family, clock=self.now, use_efficiency=self.use_efficiency
        )
        self.active[job.id] = training
        if job.running is not None:
            state = job.running
            training.progress, training.attained = state.progress, state.attained_gpu_seconds
            training.held_for, training.restarts = state.run_seconds, state.restarts
            training.known, training.profiled = state.profile, state.profiled_gpus
            if state.allocation:
                training.started_at = min(job.submitted_at, self.now)
                training.give(state.allocation, self._type_of(state.allocation), 0.0, self.now)
                training.restarts = state.restarts
                training.held_since = self.now - state.held_seconds
                self._schedule(training)

    def _job_event(self, job_id: str, version: int) -> bool:
        """What a job, or a host that is up now, does by itself. Returns whether that calls for a decision."""
        if not job_id:
            return True
        training = self.active.get(job_id)
        if training is None or training.version != version:
            return False
        training.advance(self.now)
        total = training.application.total_steps
        if training.progress >= total * (1 - 1e-9):
            if training.family is not None:
                training.family.lengths.append(total)
            self._release(training)
            training.ended_at = self.now
            self._record(training, self.now)
            del self.active[job_id]
            return True
        news = False
        if self.now >= training.stalled_until + self.conditions.learn_after - SAME_TIME_S:
            news = training.learn()
        training.choose_batch()
        self._schedule(training)
        return news

    def _schedule(self, training: Training) -> None:
        training.version += 1
        at = training.next_event(self.conditions.learn_after, self.now)
        if at < math.inf:
            heapq.heappush(self._events, (at, next(self._serial), training.job.id, training.version))

    def _record(self, training: Training, ended: float) -> None:
        started = training.started_at if training.started_at is not None else math.inf
        self.outcomes.append(
            Outcome(training.job, started, ended, training.attained, training.restarts, training.stalls)
        )
        self.progress(len(self.outcomes), self._total)

    def _release(self, training: Training) -> None:
        if training.allocation and self.now > training.placed_at:
            self.held.append(Held(training.job.id, training.allocation, training.placed_at, self.now))

    def _decide(self) -> bool:
        """One decision, applied. Returns whether anything runs after it."""
        self._decided_at = self.now
        for training in self.active.values():
            training.advance(self.now)
        snapshot = self.snapshot()
        began = time.perf_counter()
        plan = self.policy.allocate(snapshot)
        self.decision_seconds.append(time.perf_counter() - began)
        if faults := plan_faults(snapshot, plan):
            raise RuntimeError(f"{self.policy.name} made a faulty plan: {'; '.join(faults[:3])}")
        self._apply(plan)
        return any(training.allocation for training in self.active.values())

    def _apply(self, plan: Plan) -> None:
        self.review_at = plan.review_at if self.conditions.on_events else None
        if plan.desired_hosts is not None and (not self.desired or self.desired[-1][1] != plan.desired_hosts):
            self.desired.append((self.now, plan.desired_hosts))
        for job_id, training in self.active.items():
            wanted = dict(plan.allocations.get(job_id, {}))
            suspended = job_id in plan.suspended
            if wanted == dict(training.allocation) and suspended == training.suspended:
                continue
            if wanted != dict(training.allocation):
                self._release(training)
                stall = self._stall(training, wanted)
                if wanted and not training.allocation:
                    self.last_host = max(wanted)
                training.give(wanted, self._type_of(wanted), stall, self.now)
            training.suspended = suspended
            self._schedule(training)
        if self.switch is not None:
            self._switch_hosts(self.switch, plan.desired_hosts)

    def _switch_hosts(self, switch: HostSwitch, desired: int | None) -> None:
        rigid = {host for t in self.active.values() if not t.job.elastic for host in t.allocation}
        closed, ready = switch.turn(self.now, desired, self._held_gpus(), rigid)
        for training in self.active.values():
            if not training.allocation.keys().isdisjoint(closed):  # it moves on at once
                self._release(training)
                training.give({}, training.gpu_type, 0.0, self.now)
                self._schedule(training)
        for at in [self.now + 1.0] * bool(closed) + ready:
            heapq.heappush(self._events, (at, next(self._serial), "", 0))

    def _held_gpus(self) -> dict[str, int]:
        held: dict[str, int] = {}
        for training in self.active.values():
            for host, gpus in training.allocation.items():
                held[host] = held.get(host, 0) + gpus
        return held

    def _stall(self, training: Training, wanted: Mapping[str, int]) -> float:
        if training.started_at is None:
            return self.conditions.cold_start
        held = training.allocation
        if held and all(wanted[h] <= held.get(h, 0) for h in wanted):
            return self.conditions.stall_down
        return self.conditions.stall_up

    def _type_of(self, allocation: Mapping[str, int]) -> str:
        """A gang runs at the pace of its slowest GPUs."""
        types = {self.types[host] for host in allocation}
        return min(types, key=lambda t: (self.conditions.speeds.get(t, 1.0), t), default=NO_TYPE)

    def snapshot(self) -> Snapshot:
        jobs = tuple(self._view(training) for training in self.active.values())
        hosts = self.hosts if self.switch is None else self.switch.views(self.now, self._held_gpus())
        return Snapshot(self.now, self.conditions.seed, hosts, jobs, self.last_host)

    def _view(self, training: Training) -> JobView:
        job = training.job
        most = job.most_gpus
        goodput = training.goodput()
        if self.caps_growth and job.elastic and training.application.model is not None:
            most = min(most, max(job.min_gpus, 2 * training.largest))
        return JobView(
            id=job.id,
            submitted_at=job.submitted_at,
            required_gpus=job.required_gpus,
            min_gpus=job.min_gpus,
            max_gpus=max(most, job.min_gpus, training.gpus if self.caps_growth else 0),
            elastic=job.elastic,
            priority=job.priority,
            weight=job.weight,
            deadline=job.deadline,
            attained_gpu_seconds=training.attained,
            run_seconds=training.held_for,
            restarts=training.restarts,
            allocation=dict(training.allocation),
            held_seconds=self.now - training.held_since if training.allocation else None,
            remaining=self._remaining(training),
            goodput=goodput,
            profiled_gpus=training.largest if goodput is not None else None,
            resize_seconds=self.conditions.stall_up,
        )

    def _remaining(self, training: Training) -> float | None:
        """Seconds left on one GPU, as far as the conditions let anybody know."""
        if training.job.running is not None and not training.job.running.length_known:
            return None
        total = None
        if self.conditions.lengths == "declared":
            total = training.application.total_steps * self._errors[training.job.id]
        elif self.conditions.lengths == "predicted" and training.family is not None and training.family.lengths:
            total = sum(training.family.lengths) / len(training.family.lengths)
        if total is None:
            return None
        left = max(total - training.progress, 0.05 * total)
        if training.application.model is None:
            return left * training.job.required_gpus
        if training.known is not None:
            return left * training.application.bounds.init_batch / pace(training.known, training.job.min_gpus)
        believed = training.goodput()
        if believed is None:
            return None
        return left * training.application.bounds.init_batch / float(believed(1, 1))


def _length_errors(jobs: Sequence[TraceJob], conditions: Conditions) -> dict[str, float]:
    dice = random.Random(conditions.seed)  # noqa: S311
    spread = math.log(conditions.length_error)
    return {job.id: math.exp(dice.uniform(-spread, spread)) for job in sorted(jobs, key=lambda j: j.id)}


def simulate(
    policy: Policy, jobs: Sequence[TraceJob], hosts: Sequence[HostView], conditions: Conditions | None = None
) -> Run:
    """Plays `jobs` on `hosts` under `policy`."""
    return Simulation(policy, jobs, hosts, conditions).run()
