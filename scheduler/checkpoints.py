"""Removes the checkpoints of jobs that have ended, some time after they did."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from sqlalchemy import select
from sqlmodel import col

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.host_agent import HostAgent
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job

log = logging.getLogger(__name__)

_EVERY_S = 600.0


class CheckpointSweeper:
    """Looks at every host now and then, in a thread of its own. Checkpoints stay for `keep_s` after a job's end, for
    people who want them; those of jobs that nobody knows are dropped at once."""

    def __init__(
        self,
        db: Database,
        agents: Callable[[], Mapping[str, HostAgent]],
        keep_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._db = db
        self._agents = agents
        self._keep_s = keep_s
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint-sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def sweep(self) -> None:
        for agent in self._agents().values():
            try:
                for job_id in agent.runtime.checkpoints():
                    if self._is_over(job_id):
                        agent.runtime.drop_checkpoints(job_id)
            except RuntimeFault as fault:
                log.debug("checkpoints on %s stay for now: %s", agent.host_id, fault)

    def _is_over(self, job_id: str) -> bool:
        with self._db.read() as db:
            row = db.execute(select(col(Job.finished_at)).where(col(Job.id) == job_id)).one_or_none()
        return row is None or (row[0] is not None and row[0] + self._keep_s < self._clock())

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY_S):
            try:
                self.sweep()
            except Exception:
                log.exception("checkpoints could not be swept")
