"""Predictions of new jobs' final metrics, compared with the actual values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedulearn.scheduler.core.predictions.features import Features
from schedulearn.scheduler.core.predictions.metrics import MetricModel
from schedulearn.scheduler.reports.store import NOISE, STALL
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.kin import Kin
from schedulearn.scheduler.store.predictions import metric_predictions as store

_OF_OURS = (NOISE, STALL)  # metrics of the training process, not of its result


class MetricPredictions:
    """Store of metric predictions, for use by one thread.

    No decision uses them. They show people how reliable predictions are.
    """

    def __init__(self, db: Database, clock: Callable[[], float], *, hints: bool) -> None:
        """If `hints`, other owners' jobs are used where the owner's jobs say nothing."""
        self._db = db
        self._clock = clock
        self._hints = hints
        self._models: dict[Kin, dict[str, MetricModel]] = {}
        """Metric -> model learned from finished jobs."""

    def compare(self, family: str) -> None:
        """Store the actual values after a job of the family has ended, and forget the family's models."""
        self.forget(family)
        with self._db.read() as conn:
            settled = store.ended_since(conn, family)
        if settled:
            self._db.write(lambda conn: store.settle(conn, settled))

    def forget(self, family: str) -> None:
        for kin in [kin for kin in self._models if kin.family == family]:
            del self._models[kin]

    def predict(self, kin: Kin, jobs: Mapping[str, Features]) -> None:
        """Store predictions for the jobs of a family that have none yet."""
        if kin not in self._models:
            self._models[kin] = self._learn(kin)
        models = self._models[kin]
        if not models or not jobs:
            return
        now = self._clock()
        with self._db.read() as conn:
            new = store.without_prediction(conn, list(jobs), now)
        found = {job_id: {name: model.predict(jobs[job_id]) for name, model in models.items()} for job_id in new}
        if found:
            self._db.write(lambda conn: store.remember(conn, kin, found, now))

    def _learn(self, kin: Kin) -> dict[str, MetricModel]:
        with self._db.read() as conn:
            return {
                name: MetricModel(jobs, store.scores_of(conn, kin, name))
                for name, jobs in store.reached(conn, kin, _OF_OURS, hints=self._hints).items()
            }
