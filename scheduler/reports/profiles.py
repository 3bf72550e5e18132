"""What is known of each job's speed: fits of its observations, made anew for new ones, but never in a decision."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.core import cluster_state as records
from schedulearn.scheduler.core.profile import JobProfile
from schedulearn.scheduler.core.remaining_work import samples_of
from schedulearn.scheduler.core.states import JobStatus
from schedulearn.scheduler.reports.store import NOISE, STALL, metrics_of, observations_of, profile_of
from schedulearn.scheduler.sim.replay import Curve, FinishedJob, JobKind, noise_at, noise_curve
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, Observation, Profile

if TYPE_CHECKING:
    from schedulearn.metrics.model.step_time import Observations

REMEMBERED = 40  # of a family: measurements, and jobs that ended
LAST = 5  # jobs of a family that are looked at for what a new one may begin with
AWAIT_S = 5.0  # so long at most a new job waits for the profile of its family
ALIKE = 4.0  # times as fast or slow as another: beyond that a job tells nothing of it

log = logging.getLogger(__name__)


class Profiles:
    """The profiles of all unfinished jobs. `touch` asks for a new fit, in a thread of its own; `on_change` is called
    after each."""

    def __init__(self, db: Database, on_change: Callable[[], None]) -> None:
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
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="profiles", daemon=True)

    def start(self) -> None:
        """Begins with the jobs that were profiled before this service started."""
        with self._db.read() as db:
            query = select(col(Profile.job_id)).join(Job, col(Job.id) == col(Profile.job_id))
            ids = list(db.execute(query.where(col(Job.finished_at).is_(None))).scalars())
        for job_id in ids:
            self.touch(job_id)
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def touch(self, job_id: str) -> None:
        with self._changed:
            self._touched[job_id] = None
            self._changed.notify_all()

    def get(self, job_id: str) -> JobProfile | None:
        return self._found.get(job_id)

    def work_of(self, family: str) -> float | None:
        """GPU-seconds that the last jobs of a family took on average; None if none has ended well."""
        return self._work.get(family)

    def follow(self, jobs: Mapping[str, records.Job]) -> None:
        """Learns of new jobs, which start with what is known of their family, and forgets those that have ended.
        `jobs`: all that have not."""
        gone, new = self._families.keys() - jobs.keys(), jobs.keys() - self._families.keys()
        if not gone and not new:
            return
        self.keep_only(jobs)
        with self._changed:
            for job_id in gone:
                self._ended_in.add(self._families.pop(job_id))
                self._awaited.pop(job_id, None)
            for job_id in new:
                family = self._families[job_id] = jobs[job_id].family
                if family not in self._work:
                    self._ended_in.add(family)
                if jobs[job_id].elastic and job_id not in self._found:
                    self._touched.setdefault(job_id)
                    self._awaited[job_id] = time.monotonic() + AWAIT_S
            self._ended_in.discard("")
            self._changed.notify_all()

    def awaited(self) -> frozenset[str]:
        """Jobs that have just become known, and whose first fit is yet to be made: in a moment it is known what their
        families tell of them, and with that they had better begin."""
        with self._changed:
            now = time.monotonic()
            return frozenset(job_id for job_id, until in self._awaited.items() if now < until)

    def keep_only(self, job_ids: Iterable[str]) -> None:
        """Forgets jobs that have ended."""
        with self._changed:
            for job_id in self._found.keys() - set(job_ids):
                del self._found[job_id]

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._touched or self._ended_in or self._stopping)
                if self._stopping:
                    return
                family = self._ended_in.pop() if self._ended_in else ""
            if family:
                self._weigh(family)
                continue
            with self._changed:
                job_id = next(iter(self._touched))
                del self._touched[job_id]
            profile: JobProfile | None = None
            try:
                profile = self._fit(job_id)
            except Exception:
                log.exception("job %s can't be profiled", job_id)
            with self._changed:
                awaited = self._awaited.pop(job_id, None) is not None
                if profile is not None:
                    self._store(job_id, profile)
            if profile is not None or awaited:
                self._on_change()

    def _store(self, job_id: str, profile: JobProfile) -> None:
        first = job_id not in self._found
        self._found[job_id] = profile
        self.version += 1
        if first and (mine := self._families.get(job_id)):  # its kin may begin with it
            kin = [other for other, family in self._families.items() if family == mine]
            self._touched |= {other: None for other in kin if other not in self._found}

    def _weigh(self, family: str) -> None:
        """Looks up how long the last jobs of a family took."""
        ended = (col(Job.family) == family, col(Job.status) == JobStatus.SUCCEEDED, col(Job.gpu_seconds) > 0)
        query = select(col(Job.gpu_seconds)).where(*ended).order_by(col(Job.finished_at).desc()).limit(REMEMBERED)
        with self._db.read() as db:
            found = list(db.execute(query).scalars())
        with self._changed:
            before, self._work[family] = self._work.get(family), sum(found) / len(found) if found else None
            self.version += before != self._work[family]

    def _fit(self, job_id: str) -> JobProfile | None:
        """From its own reports, and beside them what its family did on GPUs and batches that it has not tried, at its
        own pace; its noise scale, until it tells one, is what its family had at the same point of its training."""
        with self._db.read() as db:
            row, rows = profile_of(db, job_id), observations_of(db, [job_id])
            noise = row.noise_scale if row is not None else None
            theirs: list[Any] = []
            own = [value for _, value, _ in metrics_of(db, job_id).get(STALL, [])]
            alike = None  # whose stalls tell about its own, which has none
            if (relative := _relative(db, job_id)) is not None:
                known, theirs = profile_of(db, relative), observations_of(db, [relative])[-REMEMBERED:]
                if _resized_alike(db, job_id, relative):
                    alike = relative
                if noise is None and known is not None:
                    noise = noise_at(_course(known, metrics_of(db, relative).get(NOISE, [])), _fraction(row))
                    noise = known.noise_scale if noise is None else noise
                row = row or known
            stalls = own or ([value for _, value, _ in metrics_of(db, alike).get(STALL, [])] if alike else [])
        if row is None or not (rows or theirs):
            return None
        return make_profile(row, blended(rows, theirs), sorted(stalls)[len(stalls) // 2] if stalls else None, noise)


def blended(own: Sequence[Any], kin: Sequence[Any]) -> list[Any]:
    """A job's own observations, behind those of a relative on GPUs and batches that it has not tried: their times are
    scaled by how it compares where it has. One that is far slower or faster is no kin."""
    from schedulearn.metrics.model.step_time import fit

    found: list[Any] = []
    for gpu_type in sorted({seen.gpu_type for seen in kin}):
        theirs = [seen for seen in kin if seen.gpu_type == gpu_type]
        mine = [seen for seen in own if seen.gpu_type == gpu_type]
        tried = {_shape(seen) for seen in mine}
        ratio = 1.0
        if mine:
            model = fit(_columns(theirs))
            ratios = [s.iter_time / model.iter_time(s.num_nodes, s.num_gpus, s.atomic_batch) for s in mine]
            ratio = float(sorted(ratios)[len(ratios) // 2])
        elif own:
            continue  # of a type that only they know: nothing tells how it compares there
        if 1 / ALIKE <= ratio <= ALIKE:
            found += [
                SimpleNamespace(
                    gpu_type=gpu_type, num_nodes=seen.num_nodes, num_gpus=seen.num_gpus, at=seen.at,
                    atomic_batch=seen.atomic_batch, grad_time=seen.grad_time * ratio, iter_time=seen.iter_time * ratio,
                )
                for seen in theirs if _shape(seen) not in tried
            ]  # fmt: skip
    return [*found, *own]


def _shape(seen: Any) -> tuple[int, int, int]:
    return seen.num_nodes, seen.num_gpus, seen.atomic_batch


def _columns(seen: Sequence[Any]) -> Observations:
    import numpy as np

    from schedulearn.metrics.model.step_time import Observations

    names = ("num_nodes", "num_gpus", "atomic_batch", "grad_time", "iter_time")
    return Observations(*(np.array([float(getattr(each, name)) for each in seen]) for name in names))


def _relative(db: Connection, job_id: str) -> str | None:
    """Of the jobs of the same family that reported last, the one that was measured on the most GPUs."""
    family = db.execute(select(col(Job.family)).where(col(Job.id) == job_id)).scalar()
    if not family:
        return None
    most = func.max(col(Observation.num_gpus)).label("most")
    query = (
        select(col(Profile.job_id), most)
        .join(Job, col(Job.id) == col(Profile.job_id))
        .join(Observation, col(Observation.job_id) == col(Profile.job_id))
        .where(col(Job.family) == family, col(Job.id) != job_id)
        .group_by(col(Profile.job_id))
        .order_by(col(Profile.reported_at).desc())
        .limit(LAST)
    )
    newest = list(db.execute(query))
    return max(newest, key=lambda row: row.most).job_id if newest else None


def _course(row: Any, points: Iterable[Sequence[float]]) -> Curve:
    """The noise scale over a whole training: `points` of the job of `row`, which may have come only so far."""
    return noise_curve([(step, phi, at) for step, phi, at in points], _fraction(row) or 1.0)


def _fraction(row: Any) -> float:
    """How much of its training a job has done, as far as it tells; 0 if nothing."""
    done, total = samples_of(row) or (0, 1)
    return done / total


def kinds(db: Connection, past: Sequence[FinishedJob]) -> Callable[[Any], JobKind | None]:
    """A row of `job` -> what its kind's newest profile tells. A kind: one family with the same bounds of the batch."""
    found: dict[tuple[Any, ...], JobKind | None] = {}
    of_job: dict[str, tuple[Any, ...]] = {}
    names: dict[str, int] = {}
    rows_of = select(Profile).where(col(Profile.job_id).in_([each.job.id for each in past if each.job.elastic]))
    told = {row.job_id: row for row in db.execute(rows_of)}
    for each in reversed(past):
        if (row := told.get(each.job.id)) is None:
            continue
        bounds = (row.init_batch, row.max_batch, row.min_local, row.max_local, row.accumulate)
        key = of_job[each.job.id] = (each.job.family or each.job.id, *bounds)
        if found.get(key) is None and (rows := observations_of(db, [each.job.id])[-REMEMBERED:]):
            number = names[each.job.name] = names.get(each.job.name, 0) + 1
            name = each.job.name if number == 1 else f"{each.job.name} ({number})"
            found[key] = JobKind(name, make_profile(row, rows).goodput, noise_curve(each.noise))
    return lambda job: found.get(of_job.get(job.id, ()))


def _resized_alike(db: Connection, job_id: str, other: str) -> bool:
    """Whether a resize of one tells how long one of the other takes."""
    return len(set(db.execute(select(col(Job.resize)).where(col(Job.id).in_([job_id, other]))).scalars())) == 1


def make_profile(
    row: Any, rows: Iterable[Any], resize_seconds: float | None = None, noise: float | None = None
) -> JobProfile:
    """The profile from a row of `profile` and at least one of `observation`. Takes some 10 ms. `noise`: the noise scale
    to go by, if the row tells none."""
    # A service whose jobs don't report needs none of this, and it takes a second and memory to load.
    from schedulearn.metrics.model.goodput import SAFE_EFFICIENCY, BatchBounds, Goodput
    from schedulearn.metrics.model.step_time import StepTimeModel, fit, rms_relative_error

    by_type: dict[str, list[Any]] = {}
    for observation in rows:
        by_type.setdefault(observation.gpu_type, []).append(observation)
    models: dict[str, StepTimeModel] = {}
    errors = {}
    for gpu_type, mine in sorted(by_type.items(), key=lambda item: -item[1][-1].at):
        seen = _columns(mine)
        models[gpu_type] = fit(seen)
        errors[gpu_type] = rms_relative_error(models[gpu_type], seen)
    bounds = BatchBounds(row.init_batch, row.max_batch, row.min_local, row.max_local, row.accumulate)
    # Without a noise scale no batch but the smallest is known to be worth its samples.
    phi = next((n for n in (noise, row.noise_scale) if n is not None), 0.0)
    goodput = Goodput(models, phi, bounds, min_efficiency=SAFE_EFFICIENCY)  # as the worker chooses its batch
    return JobProfile(goodput, max(o.num_gpus for mine in by_type.values() for o in mine), errors, resize_seconds)
