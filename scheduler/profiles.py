"""What is known of each job's speed: fits of its observations, made anew for new ones, but never in a decision."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlmodel import col

from schedulearn.scheduler.observations import STALL, metrics_of, observations_of, profile_of
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, Profile

if TYPE_CHECKING:
    from schedulearn.metrics.goodput import Goodput

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobProfile:
    """One job's speed, as of its newest report."""

    goodput: Goodput
    max_profiled: int
    """The largest number of GPUs that it was measured on."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """GPU type -> root mean square of the fit's relative error."""
    resize_seconds: float | None = None
    """How long it stood still when it was resized; None if it was not yet."""

    def cap(self, max_gpus: int, min_gpus: int) -> int:
        """What may be tried now: twice what was profiled, within the job's own bounds."""
        return max(min_gpus, min(max_gpus, 2 * self.max_profiled))

    def for_worker(self) -> dict[str, dict[str, float]]:
        """GPU type -> parameters of its step-time model."""
        return {gpu_type: asdict(model) for gpu_type, model in self.goodput.models.items()}


class Profiles:
    """The profiles of all unfinished jobs. `touch` asks for a new fit, in a thread of its own; `on_change` is called
    after each."""

    def __init__(self, db: Database, on_change: Callable[[], None]) -> None:
        self._db = db
        self._on_change = on_change
        self._found: dict[str, JobProfile] = {}
        self.version = 0
        """Raised by every new fit."""
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

    def keep_only(self, job_ids: Iterable[str]) -> None:
        """Forgets jobs that have ended."""
        with self._changed:
            for job_id in self._found.keys() - set(job_ids):
                del self._found[job_id]

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._touched or self._stopping)
                if self._stopping:
                    return
                job_id = next(iter(self._touched))
                del self._touched[job_id]
            try:
                profile = self._fit(job_id)
            except Exception:
                log.exception("job %s can't be profiled", job_id)
                continue
            if profile is not None:
                with self._changed:
                    self._found[job_id] = profile
                    self.version += 1
                self._on_change()

    def _fit(self, job_id: str) -> JobProfile | None:
        with self._db.read() as db:
            row, rows = profile_of(db, job_id), observations_of(db, [job_id])
            stalls = [value for _, value, _ in metrics_of(db, job_id).get(STALL, [])]
        if row is None or not rows:
            return None
        return make_profile(row, rows, sorted(stalls)[len(stalls) // 2] if stalls else None)


def make_profile(row: Any, rows: Iterable[Any], resize_seconds: float | None = None) -> JobProfile:
    """The profile from a row of `profile` and at least one of `observation`. Takes some 10 ms."""
    # A service whose jobs don't report needs none of this, and it takes a second and memory to load.
    import numpy as np

    from schedulearn.metrics.goodput import BatchBounds, Goodput
    from schedulearn.metrics.throughput import Observations, StepTimeModel, fit, rms_relative_error

    by_type: dict[str, list[Any]] = {}
    for observation in rows:
        by_type.setdefault(observation.gpu_type, []).append(observation)
    models: dict[str, StepTimeModel] = {}
    errors = {}
    for gpu_type, mine in sorted(by_type.items(), key=lambda item: -item[1][-1].at):
        seen = Observations(
            *(
                np.array([float(getattr(observation, name)) for observation in mine])
                for name in ("num_nodes", "num_gpus", "atomic_batch", "grad_time", "iter_time")
            )
        )
        models[gpu_type] = fit(seen)
        errors[gpu_type] = rms_relative_error(models[gpu_type], seen)
    bounds = BatchBounds(row.init_batch, row.max_batch, row.min_local, row.max_local, row.accumulate)
    # Without a noise scale no batch but the smallest is known to be worth its samples.
    goodput = Goodput(models, row.noise_scale if row.noise_scale is not None else 0.0, bounds)
    return JobProfile(goodput, max(o.num_gpus for mine in by_type.values() for o in mine), errors, resize_seconds)
