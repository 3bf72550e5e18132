"""Parts of a running service that sweeps add."""

from __future__ import annotations

from functools import partial

from fastapi import Request

from schedulearn.api.state import cluster_of
from schedulearn.features.sweeps.advisor import Advisor
from schedulearn.features.sweeps.results import RunResults
from schedulearn.features.sweeps.searcher import Searcher
from schedulearn.features.sweeps.service import Sweeps, advance_sweeps
from schedulearn.features.sweeps.tuner import Tuner
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.disk_room import is_low


class SweepWorker:
    """Use cases of sweeps, the thread of searches, and advice.

    Each scheduling cycle advances sweeps."""

    def __init__(self, cluster: Cluster) -> None:
        prices = cluster.settings.gpu_prices
        monitor, resources = cluster.monitor, cluster.resources
        self.use_cases = Sweeps(cluster.db, cluster.loop.wake, cluster.service.check, cluster.service.clock)
        self.advisor = Advisor(cluster.db, cluster.forecaster.wait_of, prices)
        self._db = cluster.db
        self._searcher = Searcher(cluster.db, cluster.loop.wake, prices)
        self._tuner = Tuner(cluster.db, cluster.loop.wake, cluster.service.clock)
        self._results = RunResults(cluster.db, prices, monitor.mean_utilization, resources, monitor.is_energy_counted)
        self._quotas = cluster.service.quotas
        self._is_disk_low = partial(is_low, cluster.data_dir)
        cluster.loop.cycle_hooks.append(self._advance)

    def start(self) -> None:
        self._searcher.start()
        self._tuner.start()

    def close(self) -> None:
        self._tuner.close()
        self._searcher.close()

    def _advance(self, now: float) -> bool:
        unsettled = self._results.record(now)  # before a sweep ends: later its runs are not recorded
        return advance_sweeps(self._db, now, self._quotas.now(), self._is_disk_low, unsettled)


def worker_of(request: Request) -> SweepWorker:
    """Return the worker of the service that answers a request."""
    return cluster_of(request).worker(SweepWorker)
