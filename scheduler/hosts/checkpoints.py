"""Transfer, backup copies and deletion of jobs' checkpoints.

Checkpoints are brought to the host where a job continues, and copied in case that host is lost. They are deleted some
time after the job's end.

A job's checkpoints are in a folder of the host on which its first task ran last (`job.checkpoint_host`). That value
changes only when a task is observed running on another host. If anything fails before, the old folder stays valid.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from sqlalchemy import select
from sqlmodel import col

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.hosts.one_object import about_one
from schedulearn.scheduler.hosts.transfer import transfer
from schedulearn.scheduler.runtimes.contract import FetchProgress, Runtime
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, Task

log = logging.getLogger(__name__)

Agents = Callable[[], Mapping[str, HostAgent]]

_CHUNK = 1 << 20
COPY_S = 15.0
_SWEEP_S = 600.0
_REST = 20.0  # minimum rest, in multiples of the time that copying took


class Copies:
    """The service's own copies of checkpoints, one file per job.

    They have at most `limit_bytes` together. The modification time of a copy's file is that of the original folder, by
    the clock of its host."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._limit = limit_bytes

    @property
    def wanted(self) -> bool:
        return self._limit > 0

    def time_of(self, job_id: str) -> float | None:
        try:
            return self._path(job_id).stat().st_mtime
        except FileNotFoundError:
            return None

    def save(self, job_id: str, chunks: Iterator[bytes], changed_at: float) -> None:
        """Replace the copy of a job's checkpoints.

        Raises RuntimeFault if the new copy is too large. The old copy stays if the new one is too large or fails."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(job_id)
        unfinished = path.with_suffix(".partial")
        left = self._limit - sum(each.stat().st_size for each in self._folder.glob("*.tar") if each != path)
        try:
            with unfinished.open("wb") as file:
                for chunk in chunks:
                    left -= len(chunk)
                    if left < 0:
                        raise RuntimeFault(
                            f"the checkpoints of {job_id} exceed the quota of {self._limit / 1e9:g} GB for copies: "
                            "see the setting checkpoint_copies"
                        )
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            os.utime(unfinished, (changed_at, changed_at))
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    def read(self, job_id: str) -> Iterator[bytes]:
        with self._path(job_id).open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk

    def jobs(self) -> list[str]:
        return [path.stem for path in self._folder.glob("*.tar")]

    def drop(self, job_id: str) -> None:
        self._path(job_id).unlink(missing_ok=True)

    def _path(self, job_id: str) -> Path:
        return self._folder / f"{job_id}.tar"


@dataclass(frozen=True)
class _RunningTask:
    """Running first task of a job, on the host that has its checkpoints."""

    job_id: str
    host_id: str
    started_at: float | None


@dataclass(frozen=True)
class _JobEnd:
    finished_at: float | None
    checkpoint_host: str | None
    """Host that has the job's checkpoints; None: no host yet."""


class Checkpoints:
    """Transfer of checkpoints (`fetch`), and a thread that copies and deletes them.

    They stay for `keep_s` after a job's end, for users. Checkpoints of jobs that are not in the database are deleted at
    the next sweep."""

    def __init__(
        self,
        db: Database,
        agents: Agents,
        copies: Copies,
        keep_s: float,
        every_s: float = COPY_S,
        clock: Callable[[], float] = time.time,
        aged: Callable[[], float] | None = None,
    ) -> None:
        """`every_s`: minimum interval between checks for changed checkpoints.

        `aged`: the clock for the age of checkpoints; None: `clock`."""
        self._aged = aged or clock
        self._every_s = every_s
        self._db = db
        self._agents = agents
        self._copies = copies
        self._keep_s = keep_s
        self._clock = clock
        self._complaints: dict[str, str] = {}
        self._swept_at = time.monotonic()
        self._thread = Background(
            "checkpoints",
            self._run,
            first_s=every_s,
            trouble="checkpoints could not be copied or deleted",
            trouble_s=every_s,
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def sweep_soon(self) -> None:
        """Sweep soon, because a job was deleted from the database."""
        self._swept_at = -_SWEEP_S
        self._thread.wake()

    def fetch(self, job_id: str, host_id: str, runtime: Runtime) -> Iterator[FetchProgress]:
        """Bring a job's newest checkpoints to a host.

        They come from the host that has them, else from the service's copy. If there is neither, none are brought.
        Raises RuntimeFault if a later try may help."""
        with self._db.read() as db:
            home = repository.get_job(db, job_id).checkpoint_host
        agent = self._agents().get(home) if home else None
        why = f"{home} does not answer"
        if agent is not None and agent.status.observation is not None:
            chunks = agent.runtime.checkpoints.save(job_id)
            if (first := next(chunks, None)) is not None:
                what = f"copying its checkpoints from {home}"
                yield from transfer(chain([first], chunks), partial(runtime.checkpoints.load, job_id), what)
                self._tell(job_id, host_id, f"Its checkpoints were copied from {home} to {host_id}.")
                return
            why = f"{home} has lost its checkpoints"
        of = self._copies.time_of(job_id)
        if of is not None:
            what = f"copying the service's copy of its checkpoints to {host_id}"
            yield from transfer(self._copies.read(job_id), partial(runtime.checkpoints.load, job_id), what)
            at = time.strftime("%H:%M:%S", time.localtime(of))
            self._tell(job_id, host_id, f"{why}: it continues from the service's copy of the checkpoints of {at}.")
        elif runtime.checkpoints.changed_at(job_id) is not None:
            self._tell(
                job_id, host_id, f"{why}, and there is no copy: it continues from older checkpoints on {host_id}."
            )
        else:
            self._tell(job_id, host_id, f"{why}, and there is no copy: it starts from the beginning.")

    def copy(self) -> None:
        """Copy the changed checkpoints of running jobs.

        With a single host, nothing is copied: there would be no other host to bring them to."""
        agents = self._agents()
        if not self._copies.wanted or len(agents) < 2:
            return
        for task in self._running():
            agent = agents.get(task.host_id)
            if self._thread.stopping or agent is None or agent.status.observation is None:
                continue
            try:
                changed_at = agent.runtime.checkpoints.changed_at(task.job_id)
                if changed_at is None or changed_at <= (task.started_at or 0.0):
                    continue  # it has written nothing since it was started there
                if changed_at != self._copies.time_of(task.job_id):
                    self._copies.save(task.job_id, agent.runtime.checkpoints.save(task.job_id), changed_at)
                self._complaints.pop(task.job_id, None)
            except (RuntimeFault, OSError) as fault:
                if self._complaints.get(task.job_id) != str(fault):
                    self._complaints[task.job_id] = str(fault)
                    log.warning("the checkpoints of job %s on %s can't be copied: %s", task.job_id, task.host_id, fault)

    def sweep(self) -> None:
        """Delete the checkpoints of jobs that ended long ago, and those left on former hosts."""
        for agent in self._agents().values():
            try:
                for job_id in agent.runtime.checkpoints.jobs():
                    with about_one(f"checkpoints of {job_id} on {agent.host_id}"):
                        agent.drop_checkpoints(job_id, partial(self._may_go, job_id, agent.host_id))
            except RuntimeFault as fault:
                log.debug("checkpoints on %s can't be deleted yet: %s", agent.host_id, fault)
        for job_id in self._copies.jobs():
            if (row := self._job(job_id)) is None or row.finished_at is not None:
                self._copies.drop(job_id)

    def _running(self) -> list[_RunningTask]:
        first = select(col(Task.job_id), col(Task.host_id), col(Task.started_at)).join(
            Job, col(Job.id) == col(Task.job_id)
        )
        live = (col(Task.state) == "running", col(Task.rank) == 0, col(Job.checkpoint_host) == col(Task.host_id))
        with self._db.read() as db:
            return [_RunningTask(*row) for row in db.execute(first.where(*live))]

    def _job(self, job_id: str) -> _JobEnd | None:
        """Return end and checkpoint host of a job; None: it is not in the database."""
        with self._db.read() as db:
            query = select(col(Job.finished_at), col(Job.checkpoint_host)).where(col(Job.id) == job_id)
            row = db.execute(query).one_or_none()
        return _JobEnd(*row) if row is not None else None

    def _may_go(self, job_id: str, host_id: str) -> bool:
        row = self._job(job_id)
        if row is None:
            return True
        if row.finished_at is not None:
            return row.finished_at + self._keep_s < self._aged()
        with self._db.read() as db:
            here = any(task.host_id == host_id for task in tasks_of(db, [job_id], live=True))
        return row.checkpoint_host not in (None, host_id) and not here

    def _tell(self, job_id: str, host_id: str, message: str) -> None:
        now = self._clock()
        self._db.write(
            lambda db: repository.add_event(
                db, now, "job.checkpoints", code="checkpoints", message=message, job_id=job_id, host_id=host_id
            )
        )

    def _run(self) -> float:
        began = time.monotonic()
        self.copy()
        # With hundreds of jobs a check takes long. It must not keep engines busy all the time.
        rest_s = max(self._every_s, _REST * (time.monotonic() - began))
        if time.monotonic() - self._swept_at > _SWEEP_S:
            self._swept_at = time.monotonic()  # set before the sweep: a `sweep_soon` meanwhile must cause another
            self.sweep()
        return rest_s
