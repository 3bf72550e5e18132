"""Terminals in running jobs and connections to their ports, counted and bounded."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence

from schedulearn.features.interactive.terminals.relay import relay_to
from schedulearn.scheduler.background import MACHINE, Timing
from schedulearn.scheduler.core.cluster_state import Task
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.hosts.running_tasks import RunningTasks
from schedulearn.scheduler.runtimes.terminals.contract import Size, Terminal
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.acting import ACTOR

OPENED, CONNECTED = "job.terminal", "job.port"
OF_A_JOB, ALTOGETHER = 8, 64
"""Terminals."""
CONNECTIONS_OF_A_JOB, CONNECTIONS = 32, 96
"""To ports."""
_TELL_AGAIN_S = 3600.0
_TOLD = 1000
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
        tasks: RunningTasks,
        timing: Timing = MACHINE,
    ) -> None:
        self._db = db
        self._tasks = tasks
        self._clock = timing.clock
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        self._connected: Counter[str] = Counter()
        self._left: OrderedDict[str, float] = OrderedDict()
        """Job -> when somebody last disconnected, of those to which nobody is connected."""
        self._monotonic = timing.monotonic
        self._began = timing.monotonic()
        self._told: dict[tuple[str, int, str], float] = {}
        """Job, port and who connected -> when an event told so: a browser makes many connections."""

    def open(self, job_id: str, rank: int | None, argv: Sequence[str], size: Size | None) -> OpenTerminal:
        """Runs a command in a job's task, the first one if no rank is given; an event says who did. Raises
        NotFoundError, NotRunningError, TooManyTerminalsError, RuntimeFault."""
        task, agent = self._tasks.find(job_id, rank)
        argv = tuple(argv) or SHELL
        opened = self._start(job_id, task, agent, argv, size, self._open)
        try:
            program = "a shell" if argv == SHELL else argv[0][:_WORD]
            message = f"{_who()} runs {program} in rank {task.rank} on {task.host_id}."
            self._tell(job_id, OPENED, message, {"rank": task.rank, "program": program})
        except BaseException:
            opened.close()
            raise
        return opened

    def connect(self, job_id: str, rank: int | None, port: int) -> OpenTerminal:
        """A connection to a port of a job's container, as a command with pipes. Raises as `open`; that nothing listens
        there is what the command says."""
        task, agent = self._tasks.find(job_id, rank)
        opened = self._start(job_id, task, agent, relay_to(port), None, self._connected)
        try:
            if self._is_new((job_id, port, _who())):
                message = f"{_who()} connected to port {port} of rank {task.rank} on {task.host_id}."
                self._tell(job_id, CONNECTED, message, {"rank": task.rank, "port": port})
        except BaseException:
            opened.close()
            raise
        return opened

    def unused_since(self, job_id: str) -> float | None:
        """Since when nobody has been connected to a job, as far as this service knows; None: somebody is."""
        with self._lock:
            if self._open[job_id] or self._connected[job_id]:
                return None
            return self._clock() - (self._monotonic() - self._left.get(job_id, self._began))

    def _is_new(self, who: tuple[str, int, str]) -> bool:
        now = self._clock()
        with self._lock:
            if now - self._told.get(who, -_TELL_AGAIN_S) < _TELL_AGAIN_S:
                return False
            self._told.pop(who, None)
            self._told[who] = now
            if len(self._told) > _TOLD:
                del self._told[next(iter(self._told))]
            return True

    def _start(
        self, job_id: str, task: Task, agent: HostAgent, argv: Sequence[str], size: Size | None, counts: Counter[str]
    ) -> OpenTerminal:
        self._enter(job_id, counts)
        try:
            terminal = agent.runtime.terminals.open(task.id, argv, size)
        except BaseException:
            self._leave(job_id, counts)
            raise
        return OpenTerminal(terminal, task.rank, lambda: self._leave(job_id, counts))

    def _tell(self, job_id: str, kind: str, message: str, data: Mapping[str, object]) -> None:
        code = kind.removeprefix("job.")
        self._db.write(
            lambda conn: repository.add_event(
                conn, self._clock(), kind, code=code, message=message, job_id=job_id, data=data
            )
        )

    def _enter(self, job_id: str, counts: Counter[str]) -> None:
        what, of_a_job, altogether = (
            ("terminals", OF_A_JOB, ALTOGETHER)
            if counts is self._open
            else ("connections", CONNECTIONS_OF_A_JOB, CONNECTIONS)
        )
        with self._lock:
            if counts[job_id] >= of_a_job:
                raise TooManyTerminalsError(f"job {job_id} has {of_a_job} {what} open: close one of them first")
            if counts.total() >= altogether:
                raise TooManyTerminalsError(f"{altogether} {what} are open in this service: try again later")
            counts[job_id] += 1

    def _leave(self, job_id: str, counts: Counter[str]) -> None:
        with self._lock:
            counts[job_id] -= 1
            if counts[job_id] <= 0:
                del counts[job_id]
            self._left[job_id] = self._monotonic()
            self._left.move_to_end(job_id)
            if len(self._left) > _TOLD:
                self._left.popitem(last=False)


def _who() -> str:
    return ACTOR.get() or "Somebody"
