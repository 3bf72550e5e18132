"""What is known of each job's speed: fits of what it measured, made anew for each report, but never in a decision."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from sqlalchemy import select
from sqlmodel import col

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core import cluster_state as records
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.reports.fitting import profile_from
from schedulearn.scheduler.reports.relatives import load_history, load_relative, mean_gpu_seconds
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, Profile

AWAIT_S = 5.0  # so long at most a new job waits for the profile of its family

log = logging.getLogger(__name__)


class Profiles:
    """The profiles of all unfinished jobs. `touch` asks for a new fit, in a thread of its own; `on_change` is called
    after each."""

    def __init__(
        self, db: Database, on_change: Callable[[], None], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic = monotonic
        self._db = db
        self._on_change = on_change
        self._found: dict[str, JobProfile] = {}
        self.version = 0
        """Raised by every new fit."""
        self._families: dict[str, str] = {}
        """job id -> family, of all unfinished jobs."""
        self._work: dict[str, float | None] = {}
        """family -> GPU-seconds that its jobs took on average."""
        self._ended_in: set[str] = set()
        """Families of which a job has ended, or that are new."""
        self._awaited: dict[str, float] = {}
        """New job -> until when a decision on it waits for what is known of its family."""
        self._touched: dict[str, None] = {}
        self._lock = threading.Lock()
        self._thread = Background("profiles", self._run, trouble_s=1.0)

    def start(self) -> None:
        """Begins with the jobs that were profiled before this service started."""
        with self._db.read() as conn:
            query = select(col(Profile.job_id)).join(Job, col(Job.id) == col(Profile.job_id))
            ids = list(conn.execute(query.where(col(Job.finished_at).is_(None))).scalars())
        for job_id in ids:
            self.touch(job_id)
        self._thread.start()

    def close(self) -> None:
        self._thread.close(timeout=10)

    def touch(self, job_id: str) -> None:
        with self._lock:
            self._touched[job_id] = None
        self._thread.wake()

    def get(self, job_id: str) -> JobProfile | None:
        return self._found.get(job_id)

    def work_of(self, family: str) -> float | None:
        """GPU-seconds that the last jobs of a family took on average; None if none has ended well."""
        return self._work.get(family)

    def read_work(self, family: str) -> float | None:
        """The same of a family that no job of today has: read now."""
        if family in self._work or not family:
            return self.work_of(family)
        with self._db.read() as conn:
            return mean_gpu_seconds(conn, family)

    def follow(self, jobs: Mapping[str, records.Job]) -> None:
        """Learns of new jobs, which start with what is known of their family, and forgets those that have ended.
        `jobs`: all that have not."""
        gone, new = self._families.keys() - jobs.keys(), jobs.keys() - self._families.keys()
        if not gone and not new:
            return
        with self._lock:
            for job_id in self._found.keys() - jobs.keys():
                del self._found[job_id]
            for job_id in gone:
                self._ended_in.add(self._families.pop(job_id))
                self._awaited.pop(job_id, None)
            for job_id in new:
                family = self._families[job_id] = jobs[job_id].family
                if family not in self._work:
                    self._ended_in.add(family)
                if jobs[job_id].elastic and job_id not in self._found:
                    self._touched.setdefault(job_id)
                    self._awaited[job_id] = self._monotonic() + AWAIT_S
            self._ended_in.discard("")
        self._thread.wake()

    def awaited(self) -> frozenset[str]:
        """New jobs whose first fit is yet to be made. What their families tell of them is known in a moment, and they
        had better begin with it."""
        with self._lock:
            now = self._monotonic()
            return frozenset(job_id for job_id, until in self._awaited.items() if now < until)

    def _run(self) -> float | None:
        family = job_id = ""
        with self._lock:
            if self._ended_in:
                family = self._ended_in.pop()
            elif self._touched:
                job_id = next(iter(self._touched))
                del self._touched[job_id]
        if family:
            self._load_work(family)
        elif job_id:
            self._renew(job_id)
        else:
            return None
        return 0.0

    def _renew(self, job_id: str) -> None:
        profile: JobProfile | None = None
        try:
            profile = self._fit(job_id)
        except Exception:
            log.exception("job %s can't be profiled", job_id)
        with self._lock:
            awaited = self._awaited.pop(job_id, None) is not None
            if profile is not None:
                self._store(job_id, profile)
        if profile is not None or awaited:
            self._on_change()

    def _store(self, job_id: str, profile: JobProfile) -> None:
        first = job_id not in self._found
        self._found[job_id] = profile
        self.version += 1
        if first and (family := self._families.get(job_id)):
            relatives = [other for other, of in self._families.items() if of == family]  # they may begin with it
            self._touched |= {other: None for other in relatives if other not in self._found}

    def _load_work(self, family: str) -> None:
        with self._db.read() as conn:
            found = mean_gpu_seconds(conn, family)
        with self._lock:
            before, self._work[family] = self._work.get(family), found
            self.version += before != found

    def _fit(self, job_id: str) -> JobProfile | None:
        with self._db.read() as conn:
            own, relative = load_history(conn, job_id), load_relative(conn, job_id)
        return profile_from(own, relative)
