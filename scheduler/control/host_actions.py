"""Actions that bring each host to the desired state. Agents execute them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from pathlib import Path

from schedulearn.scheduler.control.task_spec import HostResources, known_spec, task_spec
from schedulearn.scheduler.core.cluster_state import ClusterState, Job, Task
from schedulearn.scheduler.core.needs import Need
from schedulearn.scheduler.core.outcomes.observations import Observation
from schedulearn.scheduler.core.planning.reconcile import DesiredTask, diff
from schedulearn.scheduler.core.states import JobState, Reason
from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.core.topology import from_text
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.job_rows import keys_of


class HostActions:
    """Actions of one scheduling cycle.

    `suspended`: jobs to pause. `share`: several jobs may use one GPU. `job_env`: job id -> variables for reports of its
    workers."""

    def __init__(
        self,
        db: Database,
        agents: Mapping[str, HostAgent],
        state: ClusterState,
        observations: Mapping[str, Observation],
        suspended: Set[str],
        share: bool,
        data_sets: Mapping[str, str],
        writable: Mapping[str, Collection[str]],
        job_env: Callable[[str], Mapping[str, str]],
        all_jobs_env: Mapping[str, str],
        code_path: Callable[[str], Path],
        bind_numa: bool,
        sys_nice: bool,
    ) -> None:
        self._db = db
        self._agents = agents
        self._state = state
        self._observations = observations
        self._suspended = suspended
        self._share = share
        self._data_sets = data_sets
        self._writable = writable
        self._job_env = job_env
        self._all_jobs_env = all_jobs_env
        self._code_path = code_path
        self._sys_nice = sys_nice
        self._simulated = {gpu.uuid for gpu in state.gpus if gpu.simulated}
        self._gpus_of = Counter(gpu.host_id for gpu in state.gpus)
        self._numa = {gpu.uuid: gpu.numa for gpu in state.gpus}
        self._topologies = {host.id: host.topology for host in state.hosts}
        self._bind_numa = bind_numa
        self._gangs: dict[str, list[Task]] = {}
        self._by_host: dict[str, list[Task]] = {}
        for task in state.tasks:
            self._gangs.setdefault(task.job_id, []).append(task)
            self._by_host.setdefault(task.host_id, []).append(task)

    def begin(self, now: float) -> None:
        if not self._db.leads:  # the turn took long, and another service may be at work by now
            return
        told: list[Future[bool]] = []  # their commits are shared
        for host_id, observation in self._observations.items():
            agent = self._agents[host_id]
            here = [task for task in self._by_host.get(host_id, []) if task.job_id in self._state.jobs]
            desired = self._desired(here, agent, host_id, observation)
            waiting_for: dict[Need, list[str]] = {}
            for task_id, want in desired.items():
                for need in want.needs:
                    waiting_for.setdefault(need, []).append(task_id)
            there = {need for need in waiting_for if agent.has(need)}
            told += self._tell_progress(here, agent, now)
            agent.act(diff(desired, observation.tasks, there, now, share=self._share), waiting_for)
        for change in told:
            change.result()

    def _desired(
        self, here: Sequence[Task], agent: HostAgent, host_id: str, observation: Observation
    ) -> dict[str, DesiredTask]:
        topology = from_text(self._topologies[host_id])
        resources = HostResources(
            self._gpus_of[host_id],
            agent.status.facts,
            topology,
            topology.nodes if self._bind_numa else {},
            self._numa,
            self._data_sets,
            self._writable,
            agent.image_of,
            agent.login_of,
            agent.data_seen_at,
            self._code_path,
            self._sys_nice,
        )
        desired = {}
        for task in here:
            job, gang = self._state.jobs[task.job_id], self._gangs[task.job_id]
            desired[task.id] = DesiredTask(
                self._spec(task, job, gang, resources),
                task.stop,
                task.running or task.id in observation.started,
                job.grace_period,
                agent.start_trouble(task.id).not_before,
                task.job_id in self._suspended,
                hold=len(gang) > 1 and not self._all_ready(job, gang),
                checkpoints_elsewhere=self._lacks_checkpoints(job, task),
            )
        return desired

    def _spec(self, task: Task, job: Job, gang: Sequence[Task], resources: HostResources) -> TaskSpec:
        if not task.wanted:
            return known_spec(task, job, resources)
        keys = keys_of(self._state.starting[job.id])
        job_env = self._job_env(job.id)
        return task_spec(task, job, keys, self._simulated, gang, self._state, job_env, self._all_jobs_env, resources)

    def _all_ready(self, job: Job, gang: Sequence[Task]) -> bool:
        """Return whether all tasks of a gang can start together.

        Each host must answer, and have the image and data. Tasks that are resized in place only need the
        checkpoints."""
        return all(
            (task.generation or (task.host_id in self._observations and self._has_needs(job, task.host_id)))
            and not self._lacks_checkpoints(job, task)
            for task in gang
        )

    def _has_needs(self, job: Job, host_id: str) -> bool:
        agent = self._agents[host_id]
        return all(map(agent.has, agent.needs_of(job)))

    def _lacks_checkpoints(self, job: Job, task: Task) -> bool:
        """Return whether the job's checkpoints are still to be brought.

        Only the first task of a job has checkpoints. Checkpoints of a task that ran are on its host."""
        moved = task.rank == 0 and job.checkpoint_host not in (None, task.host_id)
        return moved and not self._agents[task.host_id].has_checkpoints(task.id)

    def _tell_progress(self, here: Sequence[Task], agent: HostAgent, now: float) -> Iterator[Future[bool]]:
        """Record the progress or failure that delays the start of jobs."""
        for task in here:
            job = self._state.jobs[task.job_id]
            if task.stop or job.state != JobState.STARTING:
                continue
            if (progress := agent.bringing(task.id)) is not None:
                message = f"{progress.message[:1].upper()}{progress.message[1:]}."
                if message != job.message:
                    yield self._keep_starting(job, message, now)
            elif (trouble := agent.start_trouble(task.id).why) and trouble not in job.message:
                yield self._keep_starting(job, f"{trouble} Trying again.", now)

    def _keep_starting(self, job: Job, message: str, now: float) -> Future[bool]:
        return self._db.submit(lambda conn: repository.move_job(conn, job, Reason.PLACED, message, now))
