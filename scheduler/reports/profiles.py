"""Profiles and predicted run times of all unfinished jobs.

Profiles are refitted after each report. Run times are predicted again whenever a job of the family ends. Both happen in
a thread of their own, never during a decision.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core import cluster_state as records
from schedulearn.scheduler.core.predictions.features import Features, Given, features_of
from schedulearn.scheduler.core.predictions.lengths import LengthModel, Prediction
from schedulearn.scheduler.core.predictions.run_times import RunTimes
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.reports.fitting import profile_from
from schedulearn.scheduler.reports.metric_predictions import MetricPredictions
from schedulearn.scheduler.reports.relatives import load_history, load_relative
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, Profile
from schedulearn.scheduler.store.people.kin import Kin, owner_of, owners_of
from schedulearn.scheduler.store.predictions.lengths import (
    MAX_RUN_TIMES,
    SettledLength,
    ended_jobs,
    ended_since,
    given_of,
    remember,
    renew_version,
    run_times,
    scores_of,
    settle,
    without_prediction,
)

AWAIT_S = 5.0  # maximum time that a new job waits for the profile of its family
MAX_AGAIN = 1000  # maximum number of jobs whose run times are predicted again after one of their family has ended

log = logging.getLogger(__name__)


class Profiles:
    """Profiles of all unfinished jobs.

    `touch` requests a new fit, which runs in a separate thread. `on_change` is called after each fit.
    """

    def __init__(
        self,
        db: Database,
        on_change: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
        *,
        hints: bool = True,
    ) -> None:
        """If `hints`, other owners' jobs of a family are used where the job and its owner's jobs say nothing."""
        self.hints = hints
        self._monotonic = monotonic
        self._clock = clock
        self._db = db
        self._on_change = on_change
        self._found: dict[str, JobProfile] = {}
        self.version = 0
        """Number that increases whenever more is known of run times."""
        self._families: dict[str, str] = {}
        """Job id -> family, for all unfinished jobs."""
        self._users: dict[str, str] = {}
        """Job id -> user, for all unfinished jobs."""
        self._features: dict[str, Features] = {}
        """Job id -> features that its run time depends on, for unfinished jobs."""
        self._lengths: dict[str, Prediction] = {}
        self._models: dict[Kin, LengthModel | None] = {}
        """Run-time models; None if none of the jobs has succeeded."""
        self.run_times = RunTimes(shared=hints)
        """Run times of rigid jobs that have ended."""
        self._ended: dict[str, None] = {}
        """Ended jobs whose run times are not known yet."""
        self._metrics = MetricPredictions(db, clock, hints=hints)
        self._changed: dict[str, bool] = {}
        """Family with a new or ended job -> whether one has ended."""
        self._awaited: dict[str, float] = {}
        """New job -> time until which decisions on it wait for the profile of its family."""
        self._touched: dict[str, None] = {}
        self._lock = threading.Lock()
        self._thread = Background("profiles", self._run, trouble_s=1.0)

    def start(self) -> None:
        """Start with the jobs that were profiled before this service started."""
        with self._db.read() as conn:
            self.run_times = RunTimes(run_times(conn), shared=self.hints)
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

    def progress_changed(self) -> None:
        """Request new forecasts: the log of a job shows its progress."""
        with self._lock:
            self.version += 1

    def get(self, job_id: str) -> JobProfile | None:
        return self._found.get(job_id)

    def length_of(self, job_id: str) -> Prediction | None:
        """Return the predicted run time of a job by its family; None if no job of the family has succeeded."""
        return self._lengths.get(job_id)

    def length_of_new(self, family: str, user: str, given: Given) -> Prediction | None:
        """Return the predicted run time of a job that has not been submitted."""
        with self._db.read() as conn:
            kin = Kin(family, owner_of(conn, user))
        model = self._length_model(kin)
        return None if model is None else model.predict(features_of(given))

    def relearn(self, family: str) -> None:
        """Learn the model of a family again, since its data has changed."""
        with self._lock:
            self._changed[family] = True
        self._thread.wake()

    def knows_lengths(self, family: str, user: str) -> bool:
        """Return whether a job of the family has succeeded."""
        with self._db.read() as conn:
            return bool(family) and bool(ended_jobs(conn, Kin(family, owner_of(conn, user)), hints=self.hints))

    def follow(self, jobs: Mapping[str, records.Job]) -> None:
        """Add new jobs, which start with the profile of their family, and forget those that have ended.

        `jobs` are all unfinished jobs.
        """
        gone, new = self._families.keys() - jobs.keys(), jobs.keys() - self._families.keys()
        if not gone and not new:
            return
        with self._lock:
            for job_id in self._found.keys() - jobs.keys():
                del self._found[job_id]
            for job_id in gone:
                self._ended[job_id] = None
                self._changed[self._families.pop(job_id)] = True
                self._users.pop(job_id, None)
                self._awaited.pop(job_id, None)
                self._features.pop(job_id, None)
                self._lengths.pop(job_id, None)
            for job_id in new:
                self._families[job_id] = jobs[job_id].family
                self._users[job_id] = jobs[job_id].user
                self._changed.setdefault(jobs[job_id].family, False)
                if jobs[job_id].elastic and job_id not in self._found:
                    self._touched.setdefault(job_id)
                    self._awaited[job_id] = self._monotonic() + AWAIT_S
            self._changed.pop("", None)
        self._thread.wake()

    def awaited(self) -> frozenset[str]:
        """Return the new jobs whose first fit is pending. It takes only a moment, and they should start with it."""
        with self._lock:
            now = self._monotonic()
            return frozenset(job_id for job_id, until in self._awaited.items() if now < until)

    def _run(self) -> float | None:
        family, job_id, ended, ids = "", "", False, list[str]()
        with self._lock:
            if self._ended:
                ids = list(self._ended)[:MAX_RUN_TIMES]
            elif self._changed:
                family = next(iter(self._changed))
                ended = self._changed.pop(family)
            elif self._touched:
                job_id = next(iter(self._touched))
                del self._touched[job_id]
        if ids:
            self._add_run_times(ids)
        elif family:
            try:
                self._predict_lengths(family, ended)
            except Exception:
                with self._lock:
                    self._changed[family] = True  # retried after the others
                raise
        elif job_id:
            self._renew(job_id)
        else:
            return None
        return 0.0

    def _add_run_times(self, job_ids: Sequence[str]) -> None:
        with self._db.read() as conn:
            found = run_times(conn, job_ids)
        for each in found:
            self.run_times.add(each)
        with self._lock:
            for job_id in job_ids:
                del self._ended[job_id]

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
            relatives = [other for other, of in self._families.items() if of == family]  # they may start with it
            self._touched |= {other: None for other in relatives if other not in self._found}

    def _predict_lengths(self, family: str, ended: bool) -> None:
        """Predict the run times of a family's new jobs. If a job has `ended`, predict those of the others again."""
        if ended:
            self._forget_models(family)
            self._metrics.compare(family)
        with self._lock:
            users = {job_id: self._users[job_id] for job_id, of in self._families.items() if of == family}
            known = {job_id: self._features[job_id] for job_id in users if job_id in self._features}
        with self._db.read() as conn:
            features = given_of(conn, [job_id for job_id in users if job_id not in known])
            some = {job_id: features_of(given) for job_id, given in features.items()}
            settled = ended_since(conn, family) if ended else []
            owners = owners_of(conn, set(users.values()))
        if settled:
            self._db.write(lambda conn: _compare(conn, family, settled, self._clock()))
        with self._lock:
            self._features |= {job_id: each for job_id, each in some.items() if job_id in self._families}
        if not users:
            self._forget_models(family)
            self._metrics.forget(family)
        for owner in sorted({owners[user] for user in users.values()}):
            mine = {job_id for job_id, user in users.items() if owners[user] == owner}
            new = {job_id: each for job_id, each in some.items() if job_id in mine}
            old = {job_id: each for job_id, each in known.items() if job_id in mine}
            self._predict_of(Kin(family, owner), new, old)

    def _predict_of(self, kin: Kin, new: dict[str, Features], known: Mapping[str, Features]) -> None:
        """Predict for `new` jobs, and for `known` ones again if the model of their family has changed."""
        if kin not in self._models:
            self._models[kin] = self._length_model(kin)
            new |= dict(list(known.items())[:MAX_AGAIN])
        if (model := self._models[kin]) is not None:
            self._keep_lengths(kin, {job_id: model.predict(each) for job_id, each in new.items()})
        self._metrics.predict(kin, new)

    def _forget_models(self, family: str) -> None:
        for kin in [kin for kin in self._models if kin.family == family]:
            del self._models[kin]

    def _keep_lengths(self, kin: Kin, found: Mapping[str, Prediction]) -> None:
        with self._lock:
            there = {job_id: each for job_id, each in found.items() if job_id in self._families}
            self.version += any(self._lengths.get(job_id) != each for job_id, each in there.items())
            self._lengths |= there
        now = self._clock()
        with self._db.read() as conn:
            first = {job_id: found[job_id] for job_id in without_prediction(conn, list(found), now)}
        if first:
            self._db.write(lambda conn: remember(conn, kin, first, now))

    def _length_model(self, kin: Kin) -> LengthModel | None:
        with self._db.read() as conn:
            ended, scores = ended_jobs(conn, kin, hints=self.hints), scores_of(conn, kin)
        return LengthModel(ended, scores) if ended else None

    def _fit(self, job_id: str) -> JobProfile | None:
        with self._db.read() as conn:
            own, relative = load_history(conn, job_id), load_relative(conn, job_id, hints=self.hints)
        return profile_from(own, relative)


def _compare(conn: Connection, family: str, settled: Sequence[SettledLength], now: float) -> None:
    """Store the results of predictions, and forget data that no longer represents the family."""
    settle(conn, settled)
    for owner in sorted({each.owner for each in settled}):
        renew_version(conn, Kin(family, owner), now)
