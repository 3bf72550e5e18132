"""Terminals in running jobs: where a job runs, how many terminals there may be, and who opened one."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.core.states import TaskStatus
from schedulearn.scheduler.errors import ConflictError, InvalidError, RuntimeFault
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.runtimes.terminals.contract import NotRunningError, Size, TaskLoad, Terminal
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.acting import ACTOR

OPENED = "job.terminal"
OF_A_JOB, ALTOGETHER = 8, 64
_WORD = 200  # characters of a program's name in an event
SHELL = ("sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh")
"""What runs where no command is given: the best shell that the image has."""


class TooManyTerminalsError(ConflictError):
    """As many terminals are open as may be."""

    code = "too_many_terminals"


class OpenTerminal:
    """A terminal that counts until it is closed."""

    def __init__(self, terminal: Terminal, rank: int, leave: Callable[[], None]) -> None:
        self.terminal = terminal
        self.rank = rank
        self._leave = leave

    def close(self) -> None:
        try:
            self.terminal.close()
        finally:
            self._leave()


class JobTerminals:
    def __init__(
        self,
        db: Database,
        agents: Callable[[], Mapping[str, HostAgent]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._db = db
        self._agents = agents
        self._clock = clock
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()

    def open(self, job_id: str, rank: int | None, argv: Sequence[str], size: Size | None) -> OpenTerminal:
        """Runs a command in a job's task, the first one if no rank is given; an event says who did. Raises
        NotFoundError, NotRunningError, TooManyTerminalsError, RuntimeFault."""
        task, agent = self.place(job_id, rank)
        argv = tuple(argv) or SHELL
        self._enter(job_id)
        try:
            terminal = agent.runtime.terminals.open(task.id, argv, size)
        except BaseException:
            self._leave(job_id)
            raise
        opened = OpenTerminal(terminal, task.rank, lambda: self._leave(job_id))
        try:
            self._tell(job_id, task, "a shell" if argv == SHELL else argv[0][:_WORD])
        except BaseException:
            opened.close()
            raise
        return opened

    def load(self, job_id: str, rank: int | None) -> tuple[Task, TaskLoad]:
        """What runs in a task of a job now. Raises as `open`."""
        task, agent = self.place(job_id, rank)
        return task, agent.runtime.terminals.load(task.id)

    def place(self, job_id: str, rank: int | None) -> tuple[Task, HostAgent]:
        """Where a rank of a job runs now."""
        with self._db.read() as conn:
            job = repository.get_job(conn, job_id)
            live = tasks_of(conn, [job_id], live=True)
        running = {task.rank: task for task in live if task.state == TaskStatus.RUNNING}
        if not running:
            raise NotRunningError(f"job {job_id} is {job.status}: commands can run in it while it runs")
        chosen = min(running) if rank is None else rank
        if chosen not in running:
            raise InvalidError(
                f"job {job_id} has no rank {chosen}: it runs as {', '.join(map(str, sorted(running)))}", field="rank"
            )
        task = running[chosen]
        agent = self._agents().get(task.host_id)
        if agent is None or agent.status.observation is None:
            raise RuntimeFault(f"{task.host_id}, where rank {chosen} of job {job_id} runs, does not answer")
        return task, agent

    def _tell(self, job_id: str, task: Task, program: str) -> None:
        message = f"{ACTOR.get() or 'Somebody'} runs {program} in rank {task.rank} on {task.host_id}."
        data = {"rank": task.rank, "program": program}
        self._db.write(
            lambda conn: repository.add_event(
                conn, self._clock(), OPENED, code="terminal", message=message, job_id=job_id, data=data
            )
        )

    def _enter(self, job_id: str) -> None:
        with self._lock:
            if self._open[job_id] >= OF_A_JOB:
                raise TooManyTerminalsError(f"job {job_id} has {OF_A_JOB} terminals open: close one of them first")
            if self._open.total() >= ALTOGETHER:
                raise TooManyTerminalsError(f"{ALTOGETHER} terminals are open in this service: try again later")
            self._open[job_id] += 1

    def _leave(self, job_id: str) -> None:
        with self._lock:
            self._open[job_id] -= 1
            if self._open[job_id] <= 0:
                del self._open[job_id]
