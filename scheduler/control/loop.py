"""The scheduling loop: load, decide, apply with guards, act. Level-triggered: any turn may be the first.

A turn never waits for an engine (agents observe and act on their own threads) and no transaction spans a decision
or a call to one. Changes that were decided on what is no longer so are dropped, and the next turn decides anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection

from schedulearn.scheduler.control.apply_plan import Changes, apply_plan, changes_of
from schedulearn.scheduler.control.image_fetches import Images, follow, take_refusals
from schedulearn.scheduler.control.resize_log import tell_resizes
from schedulearn.scheduler.control.task_spec import HostResources, known_spec, task_spec
from schedulearn.scheduler.control.waiting_reasons import WaitingLog, with_what_is_kept, with_what_is_missing
from schedulearn.scheduler.core.evictions import evictions, faults_of, next_deadline
from schedulearn.scheduler.core.host_liveness import liveness_changes
from schedulearn.scheduler.core.host_scaling import ScaleDownDelay
from schedulearn.scheduler.core.image_fetching import decide
from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.outcomes import (
    SETTLE_S,
    Finding,
    GpuTrouble,
    JobMoved,
    Observation,
    TaskEnded,
    TaskPaused,
    TaskResumed,
    TaskStarted,
    outcomes_of,
    ran_seconds,
)
from schedulearn.scheduler.core.policy import Policy, plan_faults, resizes
from schedulearn.scheduler.core.reconcile import DesiredTask, diff, is_fenced
from schedulearn.scheduler.core.retries import resting
from schedulearn.scheduler.core.snapshot import build_snapshot
from schedulearn.scheduler.core.states import HOLDS_GPUS, JobStatus, Reason
from schedulearn.scheduler.errors import IllegalTransitionError
from schedulearn.scheduler.hosts.agent import HostAgent, HostStatus
from schedulearn.scheduler.reports.profiles import AWAIT_S, Profiles
from schedulearn.scheduler.reports.silence import SilenceWatch
from schedulearn.scheduler.store import hosts, repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.repository import ClusterState
from schedulearn.scheduler.telemetry.monitor import Monitor

log = logging.getLogger(__name__)

_RESYNC_S = 10.0  # between turns at most while something runs


@dataclass
class LoopStats:
    """For people and Prometheus."""

    decisions: int = 0
    decision_seconds: float = 0.0  # in all
    policy_error: str = ""


class SchedulerLoop:
    """Runs in a thread of its own. `wake` asks for a turn soon; wakes that come together make one turn."""

    def __init__(
        self,
        db: Database,
        agents: Callable[[], Mapping[str, HostAgent]],
        policy: Callable[[], Policy],
        *,
        interval_s: float = 60.0,
        host_grace_s: float = 60.0,
        scale_window_s: float = 600.0,
        utilization: Callable[[str], float | None] = lambda uuid: None,
        profiles: Profiles | None = None,
        job_env: Callable[[str], Mapping[str, str]] = lambda job_id: {},
        monitor: Monitor | None = None,
        silence: SilenceWatch | None = None,
        data_sets: Mapping[str, str] | None = None,
        on_attempt_end: Callable[[str, int], None] = lambda job_id, attempt: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`on_attempt_end` is told which attempt of which job has ended."""
        self.data_sets = data_sets or {}
        self._on_attempt_end = on_attempt_end
        self.db = db
        self.agents = agents()
        self._monitor = monitor
        self._silence = silence
        self._agents_now = agents
        self.host_grace_s = host_grace_s
        self.policy = policy
        self.interval_s = interval_s
        self.utilization = utilization
        self.profiles = profiles
        self._profile_of = profiles.get if profiles is not None else lambda job_id: None
        self._work_of = profiles.work_of if profiles is not None else lambda job_id: None
        self.job_env = job_env
        self.clock = clock
        self.stats = LoopStats()
        self.waiting: Mapping[str, str] = {}
        """job id -> why it waits, as of the last decision."""
        self.utility: float | None = None
        """Of the last plan."""
        self.desired_hosts: int | None = None
        """How many hosts should be on; None: the policy does not say."""
        self._scaling = ScaleDownDelay(scale_window_s)
        self._waiting_log = WaitingLog(db)
        self._suspended: frozenset[str] = frozenset()
        """Jobs that pause, as of the last decision."""
        self._started_at = clock()
        self._fenced: set[str] = set()
        self._judging = False
        """A task has failed on a GPU that is yet to be looked at."""
        self._wake = threading.Event()
        self._stopping = False
        self._rest_s = interval_s
        self._hurried = False
        """There was more to start than one turn should."""
        self._thread = threading.Thread(target=self._run, name="scheduler-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def close(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            began = time.monotonic()
            try:
                self.turn()
            except Exception:
                log.exception("a turn of the scheduling loop failed; the next one starts afresh")
            took = time.monotonic() - began
            if self._hurried:
                continue
            # Leave the processor to others for much longer than we had it: with long queues turns take a while.
            time.sleep(min(2.0, max(0.005, 5 * took)))
            self._wake.wait(self._rest_s)

    def turn(self) -> None:
        """One turn: digest what is seen, decide, apply, and begin what follows from it."""
        now = self.clock()
        self._hurried = False
        self.agents = self._agents_now()  # the same for the whole turn, like what they observe
        # 1. What the hosts show, and what it means for the books.
        statuses = {host_id: agent.status for host_id, agent in self.agents.items()}  # once: they change meanwhile
        observations = {
            host_id: status.observation for host_id, status in statuses.items() if status.observation is not None
        }
        with self.db.read() as db:
            books = repository.load_cluster_state(db)
            ended = _ended_beside_live(db, books)
        if findings := self._digest(books, ended, observations, statuses, now):
            self.db.write(lambda db: _write_findings(db, findings, now))
            for found in findings:
                if isinstance(found, JobMoved) and found.stopped_as is not None:
                    self._on_attempt_end(found.job.id, found.job.attempt)
            with self.db.read() as db:
                books = repository.load_cluster_state(db)
        silent = {
            h: (status.silent_since, status.error) for h, status in statuses.items() if status.observation is None
        }
        if present := liveness_changes(books.hosts, silent, now, self.host_grace_s):
            self.db.write(lambda db: hosts.set_liveness(db, present, now))
        if leaving := evictions(books, now):
            self.db.write(lambda db: _evict(db, leaving, now))
            with self.db.read() as db:
                books = repository.load_cluster_state(db)
        # 2. What the policy wants.
        live = {task.id for task in books.tasks}
        self._fenced = {
            host for host, seen in observations.items() if is_fenced(seen.tasks, live, host in self._fenced)
        }
        ready = set(observations) - self._fenced
        if self.profiles is not None:
            self.profiles.follow(books.jobs)
        policy = self.policy()
        rests = resting(books.jobs, now)
        awaited = self.profiles.awaited() if self.profiles is not None and resizes(policy) else frozenset()
        snapshot = build_snapshot(
            replace(books, jobs={job_id: job for job_id, job in books.jobs.items() if job_id not in rests}),
            ready,
            self.utilization,
            now,
            self._profile_of,
            resizes(policy),
            awaited=awaited,
            work_of=self._work_of,
        )
        images = Images(self.agents, books.jobs)
        decision = decide(lambda seen: self._decide(policy, seen), snapshot, images.is_there, images.soon)
        plan = decision.plan
        # 3. Claim it.
        if plan is not None:
            waiting = with_what_is_missing(plan.reasons, books.hosts, books.gpus, ready)
            waiting = with_what_is_kept(waiting, snapshot, plan)
            self.waiting, self._suspended = waiting, plan.suspended
            self.utility = plan.utility
            self.desired_hosts = self._scaling.settle(now, plan.desired_hosts)
            if changes := changes_of(books, snapshot, plan, ready):
                self._hurried = self.db.write(lambda db: self._apply(db, changes, plan, ready, now))
                with self.db.read() as db:
                    books = repository.load_cluster_state(db)
            # Before the hosts have shown themselves all seem to lack GPUs.
            if observations.keys() == self.agents.keys() or now - self._started_at > SETTLE_S:
                queued = {job_id for job_id, job in books.jobs.items() if job.status == JobStatus.QUEUED}
                self._waiting_log.tell({job_id: why for job_id, why in waiting.items() if job_id in queued}, now)
        standing = {host.id for host in books.hosts if host.state == "active" and host.lost_at is None}
        follow(self.db, Images(self.agents, books.jobs), decision, standing & self.agents.keys(), now)
        tell_resizes(self.db, books.jobs, snapshot.jobs, now)
        # 4. Make it so.
        self._reconcile(books, observations, now)
        if self._monitor is not None:
            self._monitor.notice(books.gpus, books.tasks, observations)
        if self._silence is not None:
            self._silence.look(now)
        review = [max(0.05, plan.review_at - self.clock())] if plan is not None and plan.review_at is not None else []
        resync = [1.0 if self._judging else _RESYNC_S] if books.tasks else []
        tries = [max(0.05, at - self.clock()) for at in rests.values()]
        due = [*_time_left(books, now), *next_deadline(books, now), *tries, *([AWAIT_S] if awaited else [])]
        self._rest_s = min([self.interval_s, *resync, *due, *review])

    def _digest(
        self,
        books: ClusterState,
        ended: Mapping[str, list[Any]],
        observations: Mapping[str, Observation],
        statuses: Mapping[str, HostStatus],
        now: float,
    ) -> list[Finding]:
        refusals = {task: refusal for agent in self.agents.values() for task, refusal in agent.take_refusals().items()}
        held = {job_id: job for job_id, job in books.jobs.items() if job.status in HOLDS_GPUS}
        gone = self._given_up({task.host_id for task in books.tasks}, observations, statuses, now)
        gpus = GpuTrouble(faults_of(books.gpus), self._monitor.looked_at if self._monitor else lambda host_id: None)
        found = outcomes_of(held, books.tasks, ended, observations, refusals, now, self._started_at, gone, gpus)
        self._judging = gpus.awaited
        return found + take_refusals(self.agents, books.jobs)

    def _given_up(
        self,
        concerned: Set[str],
        observations: Mapping[str, Observation],
        statuses: Mapping[str, HostStatus],
        now: float,
    ) -> Mapping[str, str]:
        """Hosts whose tasks are taken for lost, with the reason: they were removed, or are silent for too long while
        another host answers. If none answers it is rather we who are cut off, and there is nowhere else to go."""
        gone: dict[str, str] = {}
        for host_id in concerned - set(observations):
            status = statuses.get(host_id)
            if status is None:
                gone[host_id] = f"{host_id} was removed"
            elif observations and (silent := now - status.silent_since) > self.host_grace_s:
                gone[host_id] = f"{host_id} has not answered for {silent:.0f} s ({status.error})"
        return gone

    def _decide(self, policy: Policy, snapshot: Snapshot) -> Plan | None:
        """The policy's plan; None if it failed or broke a rule, which leaves everything as it is."""
        began = time.perf_counter()
        try:
            plan = policy.allocate(snapshot)
            faults = plan_faults(snapshot, plan)
        except Exception as error:
            log.exception("the policy failed")
            faults = [f"it raised {type(error).__name__}: {error}"]
        self.stats.decisions += 1
        self.stats.decision_seconds += time.perf_counter() - began
        problem = "; ".join(faults[:3])
        if problem and problem != self.stats.policy_error:
            log.error("the policy's plan is refused: %s", problem)
            self.db.write(
                lambda db: repository.add_event(
                    db, snapshot.now, "policy.refused", code="policy_fault", message=problem
                )
            )
        self.stats.policy_error = problem
        return None if problem else plan

    def _apply(self, db: Connection, changes: Changes, plan: Plan, ready: Set[str], now: float) -> bool:
        report = "SCHEDULEARN_REPORT_URL" in self.job_env("")
        return apply_plan(db, changes, plan, self.agents, ready, self.utilization, now, workers_report=report)

    def _reconcile(self, books: ClusterState, observations: Mapping[str, Observation], now: float) -> None:
        simulated = {gpu.uuid for gpu in books.gpus if gpu.simulated}
        gpus_of = Counter(gpu.host_id for gpu in books.gpus)
        gangs: dict[str, list[Any]] = {}
        by_host: dict[str, list[Any]] = {}
        for task in books.tasks:
            gangs.setdefault(task.job_id, []).append(task)
            by_host.setdefault(task.host_id, []).append(task)
        told: list[Future[bool]] = []  # one commit for all of them, not one each
        for host_id, observation in observations.items():
            agent = self.agents[host_id]
            desired: dict[str, DesiredTask] = {}
            waiting_for: dict[str, list[str]] = {}
            here = by_host.get(host_id, [])
            home = HostResources(gpus_of[host_id], agent.status.facts, self.data_sets, agent.image_of)
            for task in here:
                job = books.jobs.get(task.job_id)
                if job is None:
                    continue
                gang = gangs[task.job_id]
                ran = task.state == "running" or task.id in observation.started
                spec = known_spec(task, job, home)
                if task.state == "wanted":
                    whole = books.starting[task.job_id]
                    spec = task_spec(task, whole, simulated, gang, books, self.job_env(job.id), home)
                desired[task.id] = DesiredTask(
                    spec,
                    task.stop,
                    ran,
                    job.grace_period,
                    agent.trouble(task.id)[0],
                    task.job_id in self._suspended,
                    hold=len(gang) > 1 and not self._all_ready(job, gang, observations),
                    checkpoints_elsewhere=self._lacks_checkpoints(job, task),
                )
                waiting_for.setdefault(spec.image, []).append(task.id)
            images = {image for image in waiting_for if agent.has_image(image)}
            told += self._tell_progress(books, here, agent, now)
            agent.act(diff(desired, observation.tasks, images, now), waiting_for)
        for change in told:
            change.result()

    def _all_ready(self, job: Any, gang: Sequence[Any], observations: Mapping[str, Observation]) -> bool:
        """All of a gang start or none does: not before each of its hosts answers and has what it needs. Workers of one
        host that come and go wait for nothing but its checkpoints."""
        return all(
            (t.generation or (t.host_id in observations and self._has_image(job, t.host_id)))
            and not self._lacks_checkpoints(job, t)
            for t in gang
        )

    def _has_image(self, job: Any, host_id: str) -> bool:
        return self.agents[host_id].has_image(self.agents[host_id].image_of(job))

    def _lacks_checkpoints(self, job: Any, task: Any) -> bool:
        """The first task of a job has them all; those of a task that ran are where it is."""
        moved = task.rank == 0 and job.checkpoint_host not in (None, task.host_id)
        return moved and not self.agents[task.host_id].has_checkpoints(task.id)

    def _tell_progress(
        self, books: ClusterState, here: Sequence[Any], agent: HostAgent, now: float
    ) -> Iterator[Future[bool]]:
        """Writes down what keeps jobs from starting."""
        for task in here:
            job = books.jobs.get(task.job_id)
            if job is None or task.stop:
                continue
            if job.status == JobStatus.STARTING and (progress := agent.bringing(task.id)) is not None:
                if (message := f"{progress.message[:1].upper()}{progress.message[1:]}.") != job.message:
                    yield self._quietly(job, message, now)
            elif job.status == JobStatus.STARTING:
                trouble = agent.trouble(task.id)[1]
                if trouble and trouble not in job.message:
                    yield self._quietly(job, f"{trouble} Trying again.", now)

    def _quietly(self, job: Any, message: str, now: float) -> Future[bool]:
        return self.db.submit(lambda db: repository.move_job(db, job, Reason.PLACED, message, now))


def _ended_beside_live(db: Connection, books: ClusterState) -> dict[str, list[Any]]:
    """Tasks of a gang that ended before its others did."""
    gangs = [job_id for job_id, job in books.jobs.items() if job.status in HOLDS_GPUS]
    ended: dict[str, list[Any]] = {}
    for task in repository.tasks_of(db, gangs) if gangs else []:
        if task.state == "ended" and task.attempt == books.jobs[task.job_id].attempt:
            ended.setdefault(task.job_id, []).append(task)
    return ended


def _evict(db: Connection, leaving: Sequence[tuple[Any, str]], now: float) -> None:
    for job, why in leaving:
        # What does not run yet has nothing to save: its containers end, or never start, and it waits anew.
        reason = Reason.EVICTED if job.status == JobStatus.RUNNING else Reason(job.reason)
        if repository.move_job(db, job, reason, why, now):
            repository.stop_tasks(db, job.id)


def _time_left(books: ClusterState, now: float) -> list[float]:
    """Seconds until something is due that nothing announces: a max_duration, or an inherited task settled."""
    settling = [SETTLE_S] if any(task.stop and task.state == "wanted" for task in books.tasks) else []
    return settling + [
        max(0.05, job.max_duration - job.run_seconds - ran_seconds(task, now))
        for task in books.tasks
        if (job := books.jobs.get(task.job_id)) is not None
        and job.max_duration is not None
        and task.started_at is not None
        and task.paused_at is None
    ]


def _write_findings(db: Connection, findings: list[Finding], now: float) -> None:
    """Writes findings down; those about rows that have changed meanwhile are left for the next turn."""
    for finding in findings:
        match finding:
            case TaskStarted(task, started_at, image):
                repository.mark_running(db, task, started_at, image)
            case TaskPaused(task, at):
                repository.mark_paused(db, task, at)
            case TaskResumed(task, at):
                repository.mark_resumed(db, task, at)
            case TaskEnded(task, outcome, exit_code, error, started_at, finished_at, image):
                repository.end_task(
                    db, task, outcome=outcome.value, now=now, exit_code=exit_code, error=error,
                    started_at=started_at, finished_at=finished_at, image=image or task.image,
                )  # fmt: skip
            case JobMoved(job, reason, message, fields, stop_tasks, stop_only, stopped_as):
                try:
                    if not repository.move_job(db, job, reason, message, now, **fields):
                        continue
                    if stop_tasks or stop_only:
                        repository.stop_tasks(db, job.id, None if stop_tasks else stop_only)
                    if stopped_as is not None:
                        repository.name_stopped(db, job, stopped_as)
                except IllegalTransitionError:
                    log.exception("job %s", job.id)
