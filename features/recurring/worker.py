"""Thread that runs schedules at their times."""

from __future__ import annotations

from fastapi import Request

from schedulearn.api.state import cluster_of
from schedulearn.features.recurring.service import Schedules
from schedulearn.scheduler.background import Background
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.store.db import LEADS_AGAIN_S

_CHECK_S = 30.0
"""Maximum interval of checks: the clock may be set."""


class Recurring:
    """Runs of schedules. Its thread sleeps until the next time of a schedule."""

    def __init__(self, cluster: Cluster) -> None:
        settings = cluster.settings
        self.use_cases = Schedules(cluster.service, cluster.code, settings.code_git_hosts, settings.zone)
        self._db, self._clock = cluster.db, cluster.timing.clock
        self._thread = Background("schedules", self._turn, trouble="runs of schedules could not be stored")
        self.use_cases.wake = self._thread.wake

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def _turn(self) -> float:
        if not self._db.leads:
            return LEADS_AGAIN_S
        next_at = self.use_cases.run_due()
        return _CHECK_S if next_at is None else min(_CHECK_S, max(0.01, next_at - self._clock()))


def worker_of(request: Request) -> Recurring:
    """Return the worker of the service that answers a request."""
    return cluster_of(request).worker(Recurring)
