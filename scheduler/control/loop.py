"""Scheduling loop: observe, reconcile, snapshot, decide, apply, act, follow up.

It is level-triggered: any cycle may be the first. A cycle never waits for a container engine: agents observe and act on
their own threads. No transaction spans a decision or a call to an engine. Changes that were decided on an older state
are dropped, and the next cycle decides anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.engine import Connection

from schedulearn.scheduler.background import MACHINE, Background, Timing
from schedulearn.scheduler.control.apply_plan import Changes, apply_plan, changes_of
from schedulearn.scheduler.control.fetching import JobNeeds, fetch_images, take_refusals
from schedulearn.scheduler.control.host_actions import HostActions
from schedulearn.scheduler.control.resize_log import tell_resizes
from schedulearn.scheduler.control.wait_times import WaitTimes
from schedulearn.scheduler.control.waiting_reasons import WaitingLog, add_leaving_reasons, add_shortage_reasons
from schedulearn.scheduler.control.windows import follow_windows
from schedulearn.scheduler.control.write_findings import evict, write_findings
from schedulearn.scheduler.core.cluster_state import ClusterState, Task
from schedulearn.scheduler.core.host_scaling import ScaleDownDelay
from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.outcomes.cluster_outcomes import outcomes_of
from schedulearn.scheduler.core.outcomes.early_failures import changes_after, next_openings
from schedulearn.scheduler.core.outcomes.findings import Finding, JobMoved
from schedulearn.scheduler.core.outcomes.hangs import hang_moves
from schedulearn.scheduler.core.outcomes.host_liveness import Silence, liveness_changes
from schedulearn.scheduler.core.outcomes.observations import Observation
from schedulearn.scheduler.core.outcomes.retries import next_tries
from schedulearn.scheduler.core.outcomes.task_outcomes import (
    SETTLE_S,
    Evidence,
    MemorySeen,
    nobody_measures,
    nothing_said,
)
from schedulearn.scheduler.core.outcomes.unused import UnusedSince, always_used, idle_ends
from schedulearn.scheduler.core.pipeline import decide, layers
from schedulearn.scheduler.core.planning.cpu_only import CpuOnly
from schedulearn.scheduler.core.planning.evictions import evictions, faults_of, next_deadlines, time_left
from schedulearn.scheduler.core.planning.fetching import WithImages
from schedulearn.scheduler.core.planning.nearly_done import NearlyDone
from schedulearn.scheduler.core.planning.placement import GpuMemory, gpu_memory
from schedulearn.scheduler.core.planning.predecessors import blocked_by_dependencies, failed_dependencies
from schedulearn.scheduler.core.planning.quotas import Quotas
from schedulearn.scheduler.core.planning.reconcile import is_fenced
from schedulearn.scheduler.core.planning.snapshot import build_snapshot
from schedulearn.scheduler.core.planning.start_times import start_times
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.core.states import HOLDS_GPUS, JobState
from schedulearn.scheduler.errors import FailingError, PolicyFault, SchedulearnError, StalledError, StartingError
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.hosts.observer import HostStatus
from schedulearn.scheduler.reports.hangs import HangWatch
from schedulearn.scheduler.reports.profiles import AWAIT_S, Profiles
from schedulearn.scheduler.reports.silence import SilenceWatch
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import hosts, repository
from schedulearn.scheduler.store.cluster_state import ended_beside_live, load_cluster_state
from schedulearn.scheduler.store.db import LEADS_AGAIN_S, Database
from schedulearn.scheduler.store.early_failures import write_failures
from schedulearn.scheduler.store.people.accounts import has_accounts
from schedulearn.scheduler.store.resources.gpu_memory import predicted_needs
from schedulearn.scheduler.telemetry.monitor import Monitor

log = logging.getLogger(__name__)

_RESYNC_S = 10.0  # maximum interval of cycles while something runs
_SETTLING_S = 0.5  # until GPUs that jobs have left are checked again
_RETRY_S = 5.0  # maximum interval after a failed cycle
_FAILED_TURNS = 2  # consecutive failed cycles after which the loop counts as failing
_LATE_S = 10.0  # delay of a cycle, or `interval` if longer, after which the loop counts as stalled


CycleHook = Callable[[float], bool]
"""Function of a feature: takes the time of a cycle, returns whether it changed jobs."""


@dataclass
class LoopStats:
    """Counters of decisions, for the API and Prometheus."""

    decisions: int = 0
    decision_seconds: float = 0.0  # total
    policy_error: str = ""


@dataclass(frozen=True)
class _HostsView:
    """State of the hosts in one cycle."""

    now: float
    statuses: Mapping[str, HostStatus]
    observations: Mapping[str, Observation]
    """Only of hosts that answer."""


@dataclass(frozen=True)
class _DecisionInput:
    """Input of the decision of one cycle."""

    snapshot: Snapshot
    ready: Set[str]
    """Hosts that answer, and have no container that was given up."""
    memory: GpuMemory | None
    resting: Mapping[str, float]
    """Job that may not start yet -> when it may; infinite: it is held."""
    awaits_profiles: bool
    quotas: Quotas
    cpu_only: CpuOnly
    with_images: WithImages


class _Phases:
    """Durations of the phases of one cycle."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._seconds[name] = time.perf_counter() - began

    def __str__(self) -> str:
        return ", ".join(f"{1e3 * seconds:.1f} ms to {name}" for name, seconds in self._seconds.items())


class SchedulerLoop:
    """Scheduling loop in its own thread.

    `wake` requests a cycle soon. Several requests share one cycle."""

    def __init__(
        self,
        db: Database,
        agents: Callable[[], Mapping[str, HostAgent]],
        policy: Callable[[], Policy],
        settings: ClusterSettings,
        wake: threading.Event,
        *,
        utilization: Callable[[str], float | None],
        profiles: Profiles,
        job_env: Callable[[str], Mapping[str, str]],
        code_path: Callable[[str], Path],
        monitor: Monitor,
        silence: SilenceWatch,
        hangs: HangWatch,
        on_attempt_end: Callable[[str, int], None],
        quotas: Callable[[], Quotas] = Quotas,
        memory_of: Callable[[str], MemorySeen | None] = nobody_measures,
        said: Callable[[str], bytes | None] = nothing_said,
        follow_clock: Callable[[], None] = lambda: None,
        timing: Timing = MACHINE,
    ) -> None:
        """Setting `wake` requests a cycle. `on_attempt_end` gets the job and attempt."""
        self.data_sets = settings.data_sets
        self._writable = settings.writable_data_sets
        self._on_attempt_end = on_attempt_end
        self.db = db
        self.agents = agents()
        self._monitor = monitor
        self._silence = silence
        self._hangs = hangs
        self._on_hang = settings.on_hang
        self._crash_limit = settings.crash_limit
        self._all_jobs_env = settings.job_env
        self._agents_now = agents
        self.host_grace_s = settings.host_grace
        self.policy = policy
        self._quotas = quotas
        self._memory_of = memory_of
        self._said = said
        self._follow_clock = follow_clock
        self.interval_s = settings.interval
        self._bind_numa = settings.bind_numa
        self._sys_nice = settings.sys_nice
        self._cpu_jobs = settings.cpu_jobs
        self.utilization = utilization
        self.profiles = profiles
        self.job_env = job_env
        self._code_path = code_path
        self.clock = timing.clock
        self._monotonic = timing.monotonic
        self.stats = LoopStats()
        self.waits = WaitTimes()
        self.cycle_hooks: list[CycleHook] = []
        """Functions of features, called in each cycle after the outcomes of jobs are stored."""
        self.unused_since: UnusedSince = always_used
        """Set by the feature that counts connections to jobs."""
        self.waiting: Mapping[str, str] = {}
        """Job id -> reason why it waits, as of the last decision."""
        self.utility: float | None = None
        """Utility of the last plan."""
        self.desired_hosts: int | None = None
        """Number of hosts that should be on; None: no policy decides."""
        self.parks_idle_only = False
        """Whether hosts are switched off only if no job must leave them."""
        self._rule = settings.scaling_rule
        self._scaling = ScaleDownDelay(settings.scale_window, self._rule.initial if self._rule else None)
        self._waiting_log = WaitingLog(db)
        self._nearly_done = NearlyDone()
        self._suspended: frozenset[str] = frozenset()
        """Jobs that are paused, as of the last decision."""
        self._share = True
        """Whether several jobs may use one GPU, as of the last decision."""
        self._started_at = timing.clock()
        self._settled_at = timing.monotonic() + SETTLE_S
        self._inherited: Set[str] | None = None
        """Live tasks at the start of the service; None before the first cycle."""
        self._fenced: set[str] = set()
        self._settling: Mapping[str, str] = {}
        """GPUs that jobs have just left -> condition for their reuse."""
        self._failed_at: dict[str, float] = {}
        """Live task that has failed -> when this was first seen, by the monotonic clock."""
        self._awaits_gpus = False
        """Whether a task has failed on a GPU that is still to be checked."""
        self._rest_s = settings.interval
        self._hurried = False
        """Whether more jobs could start than one cycle may start."""
        self._turned_at: float | None = None
        """End of the last complete cycle by the monotonic clock; None: none yet."""
        self._failures = 0
        """Number of consecutive failed cycles."""
        self._thread = Background("scheduler-loop", lambda: self._run() if db.leads else LEADS_AGAIN_S, wake=wake)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._thread.wake()

    def close(self) -> None:
        self._thread.close(timeout=30)

    @property
    def trouble(self) -> SchedulearnError | None:
        """Error that keeps jobs from being scheduled.

        Its text is public, and therefore has no details."""
        if self._failures >= _FAILED_TURNS:
            return FailingError(f"the last {self._failures} scheduling cycles failed: see the log of the service")
        if self._turned_at is None:
            return StartingError("the first scheduling cycle has not ended yet")
        since = self._monotonic() - self._turned_at
        if since > self._rest_s + max(_LATE_S, self.interval_s):
            return StalledError(f"the last scheduling cycle ended {since:.0f} s ago: see the log of the service")
        return None

    def _run(self) -> float:
        began, is_first = time.monotonic(), self._turned_at is None
        try:
            self.turn()
        except Exception:
            log.exception("a turn of the scheduling loop failed; the next one starts afresh")
            self._failures += 1
            return min(self._rest_s, _RETRY_S)
        self._failures, self._turned_at = 0, self._monotonic()
        if self._hurried:
            return 0.0
        if is_first:  # it took longer than later ones, as it loads modules and caches
            return self._rest_s
        # Rest much longer than the cycle took: with long queues, cycles are slow.
        self._thread.rest(min(2.0, max(0.005, 5 * (time.monotonic() - began))))
        return self._rest_s

    def turn(self) -> None:
        """Run one scheduling cycle, and log how long its phases took."""
        self._follow_clock()
        self._hurried = False
        phases = _Phases()
        with phases.timed("observe"):
            seen = self._observe()
        with phases.timed("reconcile"):
            state = self._reconcile(seen)
        with phases.timed("snapshot"):
            policy = self.policy()
            view = self._view(policy, state, seen)
        with phases.timed("decide"):
            plan = self._decide(policy, view)
        with phases.timed("apply"):
            state = self._apply(state, view, plan, seen)
        with phases.timed("act"):
            self._act(state, seen)
        with phases.timed("follow up"):
            self._follow_up(state, seen)
        self._rest_s = self._until_next(state, plan, view.resting, view.awaits_profiles, seen.now)
        log.debug("a scheduling cycle took %s", phases)

    def _observe(self) -> _HostsView:
        """Return the state of the hosts, fixed for the whole cycle."""
        now = self.clock()
        self.agents = self._agents_now()
        statuses = {host_id: agent.status for host_id, agent in self.agents.items()}  # once: they change meanwhile
        observations = {
            host_id: status.observation for host_id, status in statuses.items() if status.observation is not None
        }
        return _HostsView(now, statuses, observations)

    def _reconcile(self, seen: _HostsView) -> ClusterState:
        """Store outcomes of tasks, jobs and hosts; return the new state.

        Features then act on the outcomes, which may change the state again."""
        now = seen.now
        with self.db.read() as conn:
            state = load_cluster_state(conn)
            ended = ended_beside_live(conn, state)
        if findings := self._findings(state, ended, seen.observations, seen.statuses, now):
            failures = changes_after(findings, state.hosts, state.gpus, now)

            def write(conn: Connection) -> None:
                write_findings(conn, findings, now)
                write_failures(conn, failures, now)

            self.db.write(write)
            for found in findings:
                if isinstance(found, JobMoved) and found.stopped_as is not None:
                    self._on_attempt_end(found.job.id, found.job.attempt)
            state = self._load()
            self.waits.note_starts(self.policy().name, findings, state.jobs)
        silent = {
            host_id: Silence(status.silent_since, status.error)
            for host_id, status in seen.statuses.items()
            if status.observation is None
        }
        if changes := liveness_changes(state.hosts, silent, now, self.host_grace_s):
            self.db.write(lambda conn: hosts.set_liveness(conn, changes, now))
        if follow_windows(self.db, state, now):
            state = self._load()
        if leaving := evictions(state, now):
            self.db.write(lambda conn: evict(conn, leaving, now))
            state = self._load()
        if lost := failed_dependencies(state):
            self.db.write(lambda conn: write_findings(conn, lost, now))
            state = self._load()
        changed = [advance(now) for advance in self.cycle_hooks]  # all are called
        if any(changed):
            state = self._load()
        return state

    def _view(self, policy: Policy, state: ClusterState, seen: _HostsView) -> _DecisionInput:
        """Return the input of this cycle's decision."""
        ready = self._ready_hosts(state, seen.observations)
        self.profiles.follow(state.jobs)
        resting = {**next_tries(state.jobs, seen.now), **start_times(state.jobs, seen.now)}
        awaited = self.profiles.awaited() if policy.resizes else frozenset()
        memory = self._memory_of_gpus(state) if policy.shares_gpus else None
        self._settling = self._monitor.settling(state.gpus, state.tasks)
        images = JobNeeds(self.agents, state.jobs, seen.now)
        snapshot = build_snapshot(
            state, ready, self.utilization, seen.now, self.profiles.get, policy.resizes, awaited=awaited,
            resting=resting.keys(), length_of=self.profiles.length_of, memory=memory, settling=self._settling.keys(),
            unfit=images.unfit, run_times=self.profiles.run_times,
        )  # fmt: skip
        quotas = self._quotas()
        cpu_only = CpuOnly(
            state, ready, {host_id: status.facts for host_id, status in seen.statuses.items()}, self._cpu_jobs,
            images.is_there, resting.keys(), quotas,
            several_users=any(not job.required_gpus for job in snapshot.jobs) and self._has_accounts(), now=seen.now,
        )  # fmt: skip
        with_images = WithImages(images.is_there, images.soon)
        return _DecisionInput(snapshot, ready, memory, resting, bool(awaited), quotas, cpu_only, with_images)

    def _decide(self, policy: Policy, view: _DecisionInput) -> Plan | None:
        """Return the plan for all jobs; None: the policy failed.

        A plan that breaks a rule counts as a failure. Everything then stays as it is."""

        def ask(snapshot: Snapshot) -> Plan:
            began = time.perf_counter()
            try:
                return policy.allocate(snapshot)
            finally:
                self.stats.decisions += 1
                self.stats.decision_seconds += time.perf_counter() - began

        plan, problem = None, ""
        try:
            chosen = layers(quotas=view.quotas, rule=self._rule, cpu_only=view.cpu_only, images=view.with_images)
            plan = decide(ask, view.snapshot, chosen)
        except PolicyFault as fault:
            problem = str(fault)
        except Exception as error:
            log.exception("the policy failed")
            problem = f"it raised {type(error).__name__}: {error}"
        if problem and problem != self.stats.policy_error:
            now, kind = view.snapshot.now, "policy.refused"
            log.error("the policy's plan is refused: %s", problem)
            self.db.write(lambda db: repository.add_event(db, now, kind, code="policy_fault", message=problem))
        self.stats.policy_error = problem
        return plan

    def _apply(self, state: ClusterState, view: _DecisionInput, plan: Plan | None, seen: _HostsView) -> ClusterState:
        """Claim GPUs as planned, and begin image fetches; return the new state."""
        now = seen.now
        if plan is not None:
            state = self._claim(state, view, plan, now)
            # Until all hosts have answered once, all jobs seem to lack GPUs.
            if seen.observations.keys() == self.agents.keys() or self._monotonic() > self._settled_at:
                queued = {job.id for job in state.jobs.values() if job.state == JobState.QUEUED}
                self._waiting_log.tell({job_id: why for job_id, why in self.waiting.items() if job_id in queued}, now)
        in_service = {host.id for host in state.hosts if host.active and host.lost_at is None} & self.agents.keys()
        fetch_images(self.db, JobNeeds(self.agents, state.jobs, now), view.with_images.last, in_service, now)
        tell_resizes(self.db, state.jobs, view.snapshot.jobs, now)
        return state

    def _act(self, state: ClusterState, seen: _HostsView) -> None:
        """Begin the actions that bring hosts to the desired state."""
        actions = HostActions(
            self.db,
            self.agents,
            state,
            seen.observations,
            self._suspended,
            self._share,
            self.data_sets,
            self._writable,
            self.job_env,
            self._all_jobs_env,
            self._code_path,
            self._bind_numa,
            self._sys_nice,
        )
        self.db.confirm_lead()  # another service may have taken over while this one was suspended
        actions.begin(seen.now)

    def _follow_up(self, state: ClusterState, seen: _HostsView) -> None:
        """Check for silent jobs, hanging jobs, and GPUs that jobs have left."""
        self._monitor.notice(state.gpus, state.tasks, seen.observations)
        self._silence.look(seen.now)
        if moves := hang_moves(state.jobs, self._hangs.look(seen.now, seen.observations.keys()), self._on_hang):
            self.db.write(lambda conn: write_findings(conn, moves, seen.now))
            self.wake()

    def _load(self) -> ClusterState:
        with self.db.read() as conn:
            return load_cluster_state(conn)

    def _ready_hosts(self, state: ClusterState, observations: Mapping[str, Observation]) -> Set[str]:
        """Return the hosts that answer and have no container given up."""
        live = {task.id for task in state.tasks}
        self._fenced = {
            host for host, seen in observations.items() if is_fenced(seen.tasks, live, host in self._fenced)
        }
        return observations.keys() - self._fenced

    def _findings(
        self,
        state: ClusterState,
        ended: Mapping[str, Sequence[Task]],
        observations: Mapping[str, Observation],
        statuses: Mapping[str, HostStatus],
        now: float,
    ) -> Sequence[Finding]:
        held = {job.id: job for job in state.jobs.values() if job.state in HOLDS_GPUS}
        if self._inherited is None:
            self._inherited = {task.id for task in state.tasks}
        evidence = Evidence(
            now,
            self._started_at,
            observations,
            refusals={
                task: refusal for agent in self.agents.values() for task, refusal in agent.take_refusals().items()
            },
            inherited=self._inherited,
            settled_at=self._settled_at,
            gone=self._hosts_given_up({task.host_id for task in state.tasks}, observations, statuses, now),
            faults=faults_of(state.gpus),
            crash_limit=self._crash_limit,
            last_look_s=self._monitor.last_look_s,
            failed_s=self._failed_for,
            memory_of=self._memory_of,
            unused_since=self.unused_since,
            said=self._said,
            stranger=self._monitor.stranger,
            real_gpus={gpu.uuid for gpu in state.gpus if not gpu.simulated},
            told_to_pause={task_id for agent in self.agents.values() for task_id in agent.told_to_pause},
        )
        live = {task.id for task in state.tasks}
        self._failed_at = {task_id: at for task_id, at in self._failed_at.items() if task_id in live}
        outcomes = outcomes_of(held, state.tasks, ended, evidence)
        self._awaits_gpus = outcomes.awaits_gpus
        return [*outcomes.findings, *take_refusals(self.agents, state.jobs)]

    def _failed_for(self, task_id: str) -> float:
        now = self._monotonic()
        return now - self._failed_at.setdefault(task_id, now)

    def _hosts_given_up(
        self,
        concerned: Set[str],
        observations: Mapping[str, Observation],
        statuses: Mapping[str, HostStatus],
        now: float,
    ) -> Mapping[str, str]:
        """Return host -> reason for hosts whose tasks count as lost.

        A host was removed, or has been silent for more than `host_grace_s` while another host answers. If no host
        answers, the service itself is probably cut off."""
        gone: dict[str, str] = {}
        for host_id in concerned - set(observations):
            status = statuses.get(host_id)
            if status is None:
                gone[host_id] = f"{host_id} was removed"
            elif observations and (silent := now - status.silent_since) > self.host_grace_s:
                gone[host_id] = f"{host_id} has not answered for {silent:.0f} s ({status.error})"
        return gone

    def _has_accounts(self) -> bool:
        with self.db.read() as conn:
            return has_accounts(conn)

    def _memory_of_gpus(self, state: ClusterState) -> GpuMemory:
        with self.db.read() as conn:
            return gpu_memory(state, predicted_needs(conn, state.jobs, hints=self.profiles.hints))

    def _claim(self, state: ClusterState, view: _DecisionInput, plan: Plan, now: float) -> ClusterState:
        """Claim GPUs as planned; return the new state."""
        snapshot, ready, memory = view.snapshot, view.ready, view.memory or GpuMemory()
        reasons = add_leaving_reasons(plan.reasons, snapshot, plan)
        waiting = add_shortage_reasons(reasons, state.hosts, state.gpus, ready, self._monitor.unknown(), self._settling)
        self.waiting = {**waiting, **blocked_by_dependencies(state)}
        self._suspended = plan.suspended
        self._share = plan.jobs_per_gpu > 1
        self.utility = plan.utility
        self.desired_hosts = self._scaling.settle(now, plan.desired_hosts)
        self.parks_idle_only = plan.parks_idle_only
        changes = self._without_nearly_done(changes_of(state, snapshot, plan, ready), plan, now)
        self._nearly_done.forget(state.jobs)
        if not changes:
            return state
        report = "SCHEDULEARN_REPORT_URL" in self.job_env("")
        self._hurried = self.db.write(
            lambda conn: apply_plan(
                conn,
                changes,
                plan,
                self.agents,
                ready,
                self.utilization,
                now,
                workers_report=report,
                memory=memory,
                settling=self._settling.keys(),
            )
        )
        return self._load()

    def _without_nearly_done(self, changes: Changes, plan: Plan, now: float) -> Changes:
        resize = [
            each for each in changes.resize
            if not self._nearly_done.spares(each.job.attempt, each.view, plan.allocations.get(each.job.id, {}), now)
        ]  # fmt: skip
        return replace(changes, resize=resize)

    def _until_next(
        self, state: ClusterState, plan: Plan | None, resting: Mapping[str, float], awaited: bool, now: float
    ) -> float:
        """Return the seconds until the next cycle, unless `wake` requests one."""
        due = [self.interval_s, *time_left(state, now), *next_deadlines(state, now)]
        due += [
            max(0.05, end - now)
            for end in idle_ends(state.jobs.values(), state.tasks, self.unused_since).values()
            if end is not None
        ]
        due += [max(0.05, at - self.clock()) for at in resting.values()]
        due += [max(0.05, left) for left in next_openings(state.hosts, state.gpus, now)]
        if plan is not None and plan.review_at is not None:
            due.append(max(0.05, plan.review_at - self.clock()))
        if state.tasks:
            due.append(1.0 if self._awaits_gpus else _RESYNC_S)
        if self._settling:
            due.append(_SETTLING_S)
        if awaited:
            due.append(AWAIT_S)
        return min(due)
