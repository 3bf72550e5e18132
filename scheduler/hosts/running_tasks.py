"""Running tasks of jobs, and the hosts on which they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.states import TaskPhase
from schedulearn.scheduler.errors import InvalidError, RuntimeFault
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.runtimes.terminals.contract import NotRunningError, TaskLoad
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.db import Database


class RunningTasks:
    def __init__(self, db: Database, agents: Callable[[], Mapping[str, HostAgent]]) -> None:
        self._db = db
        self._agents = agents

    def find(self, job_id: str, rank: int | None) -> tuple[Task, HostAgent]:
        """Return a task of a job and the agent of its host; without a rank, the first task.

        Raises NotFoundError, NotRunningError, InvalidError, RuntimeFault."""
        with self._db.read() as conn:
            job = repository.get_job(conn, job_id)
            live = tasks_of(conn, [job_id], live=True)
        running = {task.rank: task for task in live if task.state == TaskPhase.RUNNING}
        if not running:
            raise NotRunningError(f"job {job_id} is {job.state}: commands can run only in a running job")
        chosen = min(running) if rank is None else rank
        if chosen not in running:
            raise InvalidError(
                f"job {job_id} has no rank {chosen}; running ranks: {', '.join(map(str, sorted(running)))}",
                field="rank",
            )
        task = running[chosen]
        agent = self._agents().get(task.host_id)
        if agent is None or agent.status.observation is None:
            raise RuntimeFault(f"{task.host_id}, where rank {chosen} of job {job_id} runs, does not answer")
        return task, agent

    def load(self, job_id: str, rank: int | None) -> tuple[Task, TaskLoad]:
        """Return what runs in a task now. Raises as `find`."""
        task, agent = self.find(job_id, rank)
        return task, agent.runtime.terminals.load(task.id)
