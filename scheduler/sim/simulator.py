"""Discrete-event simulator of the scheduler, with the same policies and snapshots.

It simulates arrivals, restarts, profiling, batch sizes and changes of noise scales. Hosts do not fail in it.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from schedulearn.scheduler.core.model import HostView, JobView, Plan, Snapshot
from schedulearn.scheduler.core.pipeline import decide, layers
from schedulearn.scheduler.core.planning.quotas import NO_QUOTAS, Quotas
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.core.predictions.run_times import RunTime, RunTimes
from schedulearn.scheduler.core.profile import TRIES
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.jobs.memory import Memory
from schedulearn.scheduler.sim.jobs.sharing import paces
from schedulearn.scheduler.sim.jobs.training import NO_TYPE, EventKind, JobEvent, Training
from schedulearn.scheduler.sim.lengths import expected_left, length_errors, remaining
from schedulearn.scheduler.sim.run import Held, JobResult, Run
from schedulearn.scheduler.sim.switching import HostSwitch
from schedulearn.scheduler.sim.workload import TraceJob

SAME_TIME_S = 1e-6
MIN_REVIEW_S = 0.05
"""Minimum time until a policy's `review_at`: the service's loop waits as long."""
MAX_EVENTS_AT_ONCE = 1000
"""Maximum events of one job at one instant; normally it has at most a few dozen."""
MAX_STEPS = 16
"""Maximum intervals between decisions on rigid jobs alone, while nothing happens and decisions change nothing. Only a
job that outlives its prediction can then change a decision."""
FRUITLESS_DECISIONS = 10_000
"""After this many in a row without any training, the policy is called again only when something happens."""


class StuckError(RuntimeError):
    """Error raised when a job repeats an event at one instant: a bug of the simulator."""

    def __init__(self, job: str, event: JobEvent, now: float) -> None:
        super().__init__(f"job {job}: its event {event.kind.value!r} at {now:.6f} s comes again and again")
        self.job = job


class _Due(NamedTuple):
    """Event of a job, or of the hosts if it names no job."""

    at: float
    serial: int
    job: str = ""
    version: int = 0
    event: JobEvent | None = None


class Simulation:
    """Simulation of one policy on one trace.

    `run` goes to the end of the trace, or until `stop(seconds since the start)`, which is called at least once per
    event. `progress(done, total)` is called for every job that ends.

    The clock, `now`, counts from `start`: in seconds since the epoch a float steps by 2.4e-7, which is too coarse to
    compute with. Inputs and outputs, also those of the policy, are in the time of the trace.
    """

    def __init__(
        self,
        policy: Policy,
        jobs: Sequence[TraceJob],
        hosts: Sequence[HostView],
        conditions: Conditions | None = None,
        *,
        progress: Callable[[int, int], None] = lambda done, total: None,
        memory: Mapping[str, Memory] | None = None,
        start: float | None = None,
        stop: Callable[[float], bool] = lambda elapsed: False,
        quotas: Quotas = NO_QUOTAS,
    ) -> None:
        """`start`: None: the last tick of the conditions' interval before the first job. `quotas`: with usage as of
        now."""
        self.policy, self.hosts = policy, tuple(hosts)
        self.conditions = conditions or Conditions()
        self.progress = progress
        self.stop = stop
        self.start = _last_tick(jobs, self.conditions.interval) if start is None else start
        self.now = 0.0
        self.types = {host.id: host.gpu_type for host in hosts}
        self._gpus_of = {host.id: host.gpus or host.parked_gpus for host in hosts}
        self.switch = HostSwitch(hosts, self.conditions, self.now) if self.conditions.scaling else None
        self._layers = layers(quotas=quotas, rule=self.switch.rule if self.switch is not None else None)
        self.memory: dict[str, Memory] = dict(memory or {})
        self.run_times = RunTimes()
        self.active: dict[str, Training] = {}
        self.outcomes: list[JobResult] = []
        self.held: list[Held] = []
        self.decision_seconds: list[float] = []
        self.desired: list[tuple[float, int]] = []
        self.last_host: str | None = None
        self.review_at: float | None = None
        self._next_tick = self.now
        self._decided_at = -math.inf
        self._fruitless = self._calm = 0
        self._shares = self._uneven = False
        self._stopped = False
        self._serial = itertools.count()
        self._events: list[_Due] = []
        jobs = [job.with_passes(self.conditions.alone_passes) for job in jobs]
        self._arrivals = sorted(jobs, key=lambda job: (job.arrives_at, job.id), reverse=True)
        self._total = len(jobs)
        self._errors = length_errors(jobs, self.conditions)

    def run(self) -> Run:
        """Run the simulation and return its result.

        Raises PolicyFault for a policy that makes faulty plans, and any error of the policy. `result` then returns
        what happened until then.
        """
        while self._arrivals and self._arrivals[-1].running is not None and self._is_due(self._next_arrival()):
            self._arrive(self._arrivals.pop())
        while (self._arrivals or self.active) and not self._is_stopped():
            at = self._next_instant()
            if math.isinf(at):
                break  # nothing will happen any more
            self.now = max(self.now, at)
            decide = self._take_arrivals() | self._take_events()
            decide &= self.conditions.on_events
            decide |= self._take_tick() | self._take_review()
            if decide and not self._is_due(self._decided_at + self.conditions.gap):
                decide, self.review_at = False, self._decided_at + self.conditions.gap
            if self._stopped:
                break
            if decide and not self._decide() and not self._arrivals and not self._events:
                break  # nothing runs and nothing arrives: waiting jobs would wait for ever
        return self.result()

    def result(self) -> Run:
        """Return the results up to now. Jobs that have not ended count as never ending."""
        for training in self.active.values():
            self._release(training)
            self._record(training, math.inf)
        self.active.clear()
        self.outcomes += [JobResult(job, math.inf, math.inf, 0.0, 0, 0.0) for job in self._arrivals]
        self._arrivals.clear()
        self.outcomes.sort(key=lambda outcome: (outcome.job.submitted_at, outcome.job.id))
        on = None
        if self.switch is not None:
            on = tuple((self._time(begin), self._time(end)) for begin, end in self.switch.finish(self.now))
        return Run(
            tuple(self.outcomes),
            tuple(self.held),
            self.hosts,
            tuple(self.decision_seconds),
            tuple(self.desired),
            on,
        )

    def _time(self, now: float) -> float:
        """Convert `now` to the time of the trace."""
        return self.start + now

    def _is_due(self, at: float) -> bool:
        return at <= self.now + SAME_TIME_S

    def _is_stopped(self) -> bool:
        self._stopped = self._stopped or self.stop(self.now)
        return self._stopped

    def _next_arrival(self) -> float:
        return self._arrivals[-1].arrives_at - self.start if self._arrivals else math.inf

    def _next_instant(self) -> float:
        event = self._events[0].at if self._events else math.inf
        if self._fruitless > FRUITLESS_DECISIONS:
            return min(self._next_arrival(), event)
        review = self.review_at if self.review_at is not None else math.inf
        return min(self._next_arrival(), event, review, self._next_tick if self.active else math.inf)

    def _take_arrivals(self) -> bool:
        """Admit the jobs that arrive now; return whether there were any."""
        came = False
        while self._is_due(self._next_arrival()) and not self._is_stopped():
            self._arrive(self._arrivals.pop())
            came = True
        return came

    def _take_events(self) -> bool:
        """Handle the events due now; return whether any calls for a decision."""
        call = False
        while self._events and self._is_due(self._events[0].at) and not self._is_stopped():
            call |= self._happens(heapq.heappop(self._events))
        return call

    def _take_tick(self) -> bool:
        if self.active and not self._is_due(self._next_tick):
            return False
        interval = self.conditions.interval
        steps = 1
        if self.conditions.on_events and self.switch is None and not any(t.job.elastic for t in self.active.values()):
            steps = min(MAX_STEPS, 2**self._calm)
        self._next_tick = (math.floor((self.now + SAME_TIME_S) / interval) + steps) * interval
        return bool(self.active)

    def _take_review(self) -> bool:
        if self.review_at is None or not self._is_due(self.review_at):
            return False
        self.review_at = None
        return bool(self.active)

    def _arrive(self, job: TraceJob) -> None:
        family = None
        if self.conditions.family_memory and job.application.times is not None:
            family = self.memory.setdefault(job.application.name, Memory())
        training = Training(
            job,
            self.conditions,
            family=family,
            clock=self.now,
            use_efficiency=self.policy.uses_efficiency_for(job.metric),
        )
        self.active[job.id] = training
        self._fruitless = 0
        if job.running is not None:
            gpu_type = self._type_of(job.running.allocation)
            training.resume(job.running, gpu_type, self.now, job.submitted_at - self.start)
            if job.running.allocation:
                self._schedule(training)

    def _happens(self, due: _Due) -> bool:
        """Handle an event of a job, or of a host that is up now. Return whether it calls for a decision."""
        if due.event is None:
            return True
        training = self.active.get(due.job)
        if training is None or training.version != due.version:
            return False
        training.advance(self.now)
        self._fruitless = 0
        if due.event.kind is EventKind.END:
            self._end(training)
            return True
        before = training.milestones
        news = training.reach(due.event)
        self._check_progress(training, due.event, before)
        self._schedule(training)
        return news

    def _end(self, training: Training) -> None:
        if training.family is not None:
            training.family.lengths.append(training.application.total_steps)
        if not training.job.elastic:
            self.run_times.add(RunTime(training.job.user, training.job.required_gpus, training.held_for))
        self._release(training)
        self._record(training, self.now)
        del self.active[training.job.id]
        if training.pace != 1.0:
            self._set_paces()

    def _check_progress(self, training: Training, event: JobEvent, before: tuple[object, ...]) -> None:
        """Raise StuckError for a second event without progress, or too many events, of the job at one instant."""
        if self.now > training.instant + SAME_TIME_S:
            training.instant, training.events_at_once, training.idle_at_once = self.now, 0, 0
        training.events_at_once += 1
        training.idle_at_once += training.milestones == before
        if training.idle_at_once > 1 or training.events_at_once > MAX_EVENTS_AT_ONCE:
            raise StuckError(training.job.id, event, self.now)

    def _schedule(self, training: Training) -> None:
        training.version += 1
        event = training.next_event(self.now)
        if event is not None and event.at < math.inf:
            due = _Due(event.at, next(self._serial), training.job.id, training.version, event)
            heapq.heappush(self._events, due)

    def _record(self, training: Training, ended: float) -> None:
        started = training.started_at if training.started_at is not None else math.inf
        times = self._time(started), self._time(ended)
        self.outcomes.append(JobResult(training.job, *times, training.attained, training.restarts, training.stalls))
        self.progress(len(self.outcomes), self._total)

    def _release(self, training: Training) -> None:
        if training.allocation and self.now > training.placed_at:
            times = self._time(training.placed_at), self._time(self.now)
            self.held.append(Held(training.job.id, training.allocation, *times))

    def _decide(self) -> bool:
        """Make and apply one decision. Return whether anything runs after it."""
        self._decided_at = self.now
        trained = [training.advance(self.now) for training in self.active.values()]
        self._fruitless = 0 if any(trained) else self._fruitless + 1
        if self.conditions.batches_on_ticks:
            for training in self.active.values():
                training.tick()
                self._schedule(training)
        snapshot = self.snapshot()
        began = time.perf_counter()
        plan = decide(self.policy.allocate, snapshot, self._layers)
        self.decision_seconds.append(time.perf_counter() - began)
        self._apply(plan)
        return any(training.allocation for training in self.active.values())

    def _apply(self, plan: Plan) -> None:
        self.review_at = None
        if plan.review_at is not None and self.conditions.on_events:
            self.review_at = max(plan.review_at - self.start, self.now + MIN_REVIEW_S)
        if plan.desired_hosts is not None and (not self.desired or self.desired[-1][1] != plan.desired_hosts):
            self.desired.append((self._time(self.now), plan.desired_hosts))
        self._calm += 1
        for job_id, training in self.active.items():
            wanted = plan.allocations.get(job_id, {})
            suspended = job_id in plan.suspended
            moves = wanted != training.allocation and dict(wanted) != training.allocation
            if not moves and suspended == training.suspended:
                continue
            self._calm = 0
            if moves:
                self._release(training)
                stall = self._stall(training, wanted)
                if wanted and not training.allocation:
                    self.last_host = max(wanted)
                training.give(wanted, self._type_of(wanted), stall, self.now)
            training.suspended = suspended
            self._schedule(training)
        if self.switch is not None:
            self._switch_hosts(self.switch, plan)
        self._shares = plan.jobs_per_gpu > 1
        self._set_paces()

    def _set_paces(self) -> None:
        beside = self._shares or self.conditions.interference > 0
        if not beside and not self._uneven:
            return  # no job slows another one down, nor did before
        found = paces(self.active.values(), self._gpus_of if self._shares else {}, self.conditions)
        for training in self.active.values():
            if training.set_pace(found.get(training.job.id, 1.0), self.now):
                self._schedule(training)
        self._uneven = beside

    def _switch_hosts(self, switch: HostSwitch, plan: Plan) -> None:
        rigid = {host for t in self.active.values() if not t.job.elastic for host in t.allocation}
        closed, ready = switch.turn(self.now, plan, self._held_gpus(), rigid)
        for training in self.active.values():
            if not training.allocation.keys().isdisjoint(closed):  # it moves on at once
                self._release(training)
                training.give({}, training.gpu_type, 0.0, self.now)
                self._schedule(training)
        for at in [self.now + 1.0] * bool(closed) + ready:
            heapq.heappush(self._events, _Due(at, next(self._serial)))

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
        """Return the slowest GPU type of an allocation, since a gang runs at the pace of its slowest GPUs."""
        types = {self.types[host] for host in allocation}
        return min(types, key=lambda t: (self.conditions.speeds.get(t, 1.0), t), default=NO_TYPE)

    def snapshot(self) -> Snapshot:
        jobs = tuple(self._view(training) for training in self.active.values())
        hosts = self.hosts if self.switch is None else self.switch.views(self.now, self._held_gpus())
        scales = self.switch is not None
        return Snapshot(self._time(self.now), self.conditions.seed, hosts, jobs, self.last_host, scales)

    def _view(self, training: Training) -> JobView:
        job, most, goodput = training.job, training.job.most_gpus, training.goodput()
        length = remaining(training, self._errors[job.id])
        if self.policy.resizes and job.elastic and training.application.times is not None:
            most = min(most, max(job.min_gpus, TRIES * training.largest))
        return JobView(
            id=job.id,
            submitted_at=job.submitted_at,
            required_gpus=job.required_gpus,
            min_gpus=job.min_gpus,
            max_gpus=max(most, job.min_gpus, training.gpus if self.policy.resizes else 0),
            elastic=job.elastic,
            preemptible=job.preemptible,
            gpu_type=job.gpu_type,
            unfit=job.unfit,
            wanted_hosts=job.wanted_hosts,
            exclusive=job.exclusive,
            priority=job.priority,
            weight=job.weight,
            metric=job.metric,
            deadline=job.deadline,
            user=job.user,
            attained_gpu_seconds=training.attained,
            run_seconds=training.held_for,
            restarts=training.restarts,
            allocation=dict(training.allocation),
            held_seconds=self.now - training.held_since if training.allocation else None,
            remaining=length.seconds if length is not None else None,
            basis=length.basis if length is not None else None,
            expected_left=expected_left(training, self.run_times),
            goodput=goodput,
            profiled_gpus=training.largest if goodput is not None else None,
            resize_seconds=self.conditions.stall_up,
        )


def _last_tick(jobs: Sequence[TraceJob], interval: float) -> float:
    """Return the last tick before the first job. Ticks counted from there match those in the time of the trace."""
    first = min((job.submitted_at for job in jobs), default=0.0)
    return min(first, math.floor(first / interval) * interval)


def simulate(
    policy: Policy, jobs: Sequence[TraceJob], hosts: Sequence[HostView], conditions: Conditions | None = None
) -> Run:
    """Simulate `jobs` on `hosts` under `policy`."""
    return Simulation(policy, jobs, hosts, conditions).run()
