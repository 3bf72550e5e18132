"""Transfer of outputs between hosts, and their deletion after retention.

A job's outputs are brought to the host where the job continues. They are deleted some time after its end. Outputs on a
host that does not answer are not lost, nor those that another rank wrote on another host. They stay there and are read
from there (`scheduler/hosts/job_files.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core.task import parse_task_id
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.hosts.one_object import about_one
from schedulearn.scheduler.hosts.transfer import transfer
from schedulearn.scheduler.runtimes.contract import FetchProgress, Runtime, UntrackedFile
from schedulearn.scheduler.runtimes.untracked import told
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.data.needed import needed_outputs
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Event, Job
from schedulearn.scheduler.store.moved_outputs import are_left_over, note_moved

log = logging.getLogger(__name__)

UNTRACKED_FILES = "job.stray_files"
_NAMED = 20  # files in one event
_SWEEP_S = 600.0
DAY_S = 86_400.0


class Outputs:
    """Transfer of outputs (`fetch`), and a thread that deletes old ones.

    It deletes the outputs of jobs that ended `keep_s` ago, and of jobs that are not in the database. It also deletes
    outputs left on hosts from which a job moved away."""

    def __init__(
        self,
        db: Database,
        agents: Callable[[], Mapping[str, HostAgent]],
        keep_s: float,
        clock: Callable[[], float] = time.time,
        aged: Callable[[], float] | None = None,
    ) -> None:
        """`aged`: the clock for the age of outputs; None: `clock`."""
        self._aged = aged or clock
        self._db = db
        self._agents = agents
        self._keep_s = keep_s
        self._clock = clock
        self._thread = Background(
            "outputs", self._run, first_s=_SWEEP_S, trouble="outputs could not be deleted", trouble_s=_SWEEP_S
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def sweep_soon(self) -> None:
        """Wake the thread, because a job was deleted from the database."""
        self._thread.wake()

    def fetch(self, job_id: str, host_id: str, runtime: Runtime) -> Iterator[FetchProgress]:
        """Bring a job's outputs to the host where it continues.

        They are added to the outputs that it has there. Raises RuntimeFault if a later try may help."""
        with self._db.read() as db:
            home = repository.get_job(db, job_id).checkpoint_host
        if home is None or home == host_id:
            return
        agent = self._agents().get(home)
        if agent is None or agent.status.observation is None:
            message = f"{home} does not answer: the job's outputs there stay there, and are visible once it answers."
            self._tell(job_id, host_id, message)
            return
        chunks = agent.runtime.outputs.save(job_id)
        if (first := next(chunks, None)) is not None:
            what = f"copying its outputs from {home}"
            yield from transfer(chain([first], chunks), partial(runtime.outputs.load, job_id, keep=True), what)
        self._db.write(lambda db: note_moved(db, job_id, home))

    def tell_untracked_files(self, host_id: str, task_id: str, files: Sequence[UntrackedFile]) -> None:
        """Store an event about the untracked files that are deleted with an ended task.

        Each message is stored once per job, regardless of the number of tries."""
        job_id = (parse_task_id(task_id) or ("",))[0]
        agent = self._agents().get(host_id)
        facts = agent.status.facts if agent is not None else None
        message, now = told(list(files), contained=facts is None or facts.isolates), self._clock()
        data = {"files": [{"path": file.path, "bytes": file.bytes} for file in files[:_NAMED]]}

        def write(db: Connection) -> None:
            known = select(col(Event.id)).where(col(Event.job_id) == job_id, col(Event.kind) == UNTRACKED_FILES)
            if db.execute(known.where(col(Event.message) == message).limit(1)).first() is not None:
                return
            repository.add_event(
                db, now, UNTRACKED_FILES, code="stray_files", message=message, job_id=job_id, host_id=host_id, data=data
            )

        self._db.write(write)

    def sweep(self) -> None:
        for agent in self._agents().values():
            try:
                for job_id in agent.runtime.outputs.jobs():
                    with about_one(f"outputs of {job_id} on {agent.host_id}"):
                        agent.drop_outputs(job_id, partial(self._may_go, job_id, agent.host_id))
            except RuntimeFault as fault:
                log.debug("outputs on %s can't be deleted yet: %s", agent.host_id, fault)

    def _may_go(self, job_id: str, host_id: str) -> bool:
        with self._db.read() as db:
            row = db.execute(select(col(Job.finished_at)).where(col(Job.id) == job_id)).one_or_none()
            if row is None:
                return True
            if row.finished_at is not None and row.finished_at + self._keep_s < self._aged():
                return job_id not in needed_outputs(db)
            here = any(task.host_id == host_id for task in tasks_of(db, [job_id], live=True))
            return not here and are_left_over(db, job_id, host_id)

    def _tell(self, job_id: str, host_id: str, message: str) -> None:
        now = self._clock()
        self._db.write(
            lambda db: repository.add_event(
                db, now, "job.outputs", code="outputs", message=message, job_id=job_id, host_id=host_id
            )
        )

    def _run(self) -> float:
        self.sweep()
        return _SWEEP_S
