"""What the metrics of new jobs are predicted to end with, kept and compared with what came."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedulearn.scheduler.core.predictions.features import Features
from schedulearn.scheduler.core.predictions.metrics import MetricModel
from schedulearn.scheduler.reports.store import NOISE, STALL
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.kin import Kin
from schedulearn.scheduler.store.predictions import metric_predictions as store

_OF_OURS = (NOISE, STALL)  # metrics that tell of the training, not of what it comes to


class MetricPredictions:
    """Used by one thread. Decides nothing: it is for people who ask how far predictions can be relied on."""

    def __init__(self, db: Database, clock: Callable[[], float], *, hints: bool) -> None:
        """`hints`: others' jobs tell where the owner's tell nothing."""
        self._db = db
        self._clock = clock
        self._hints = hints
        self._models: dict[Kin, dict[str, MetricModel]] = {}
        """Metric -> what ended jobs tell."""

    def compare(self, family: str) -> None:
        """A job of the family has ended: writes down what came, and forgets what was learned until then."""
        self.forget(family)
        with self._db.read() as conn:
            settled = store.ended_since(conn, family)
        if settled:
            self._db.write(lambda conn: store.settle(conn, settled))

    def forget(self, family: str) -> None:
        for kin in [kin for kin in self._models if kin.family == family]:
            del self._models[kin]

    def predict(self, kin: Kin, jobs: Mapping[str, Features]) -> None:
        """Keeps what is predicted of those jobs of a family that have no prediction yet."""
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
