"""One life of the service, from its start to its death: the real database, loop, agents and use cases."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError

from schedulearn.features.recurring.worker import Recurring
from schedulearn.features.sweeps.worker import SweepWorker
from schedulearn.scheduler.background import Timing
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.core.host_facts import FoundGpu
from schedulearn.scheduler.errors import ConflictError, NotFoundError, StoreError
from schedulearn.scheduler.hosts.embedded import EmbeddedHost
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.store import db as store
from schedulearn.scheduler.store.engines import sqlite
from schedulearn.scheduler.telemetry.host_watch import HostWatch
from virtual.effects import SideEffects
from virtual.engine import VirtualEngine
from virtual.time import VirtualPool, VirtualTime

HOST_GRACE_S = 30.0
IDLE_S = 120.0
"""Jobs here write nothing and have no GPU that is measured: only that they take longer than others tells a hang."""

_make_engine = store._engine


@cache
def _one_engine(url: str) -> Engine:
    """What SQLAlchemy has compiled is kept with an engine; to compile it anew takes most of a service's start."""
    return _make_engine(url)


class VirtualService:
    """`with_gpus`: of each engine; the first engine is that of the embedded host."""

    def __init__(
        self,
        directory: Path,
        engines: dict[str, VirtualEngine],
        with_gpus: int,
        time: VirtualTime,
        effects: SideEffects,
        rng: random.Random,
        job_ids: count[int],
    ) -> None:
        self._rng = rng
        self._job_ids = job_ids
        self._effects = effects
        self.pending: list[Callable[[], Any]] = []
        """What threads of the agents would do now."""
        self.failing_commits = 0
        """So many of the next commits fail."""
        self._time, self._dead = time, False
        effects.dead = False
        embedded, *others = engines.values()
        gpus = [FoundGpu(f"{embedded.host_id}-{i}", i, "simulated", 1 << 34, simulated=True) for i in range(with_gpus)]
        simulated = None if embedded.gpus else with_gpus
        hosts = [
            HostSpec(address=f"tcp://{engine.host_id}.lab:2375", name=engine.host_id, simulate_gpus=simulated)
            for engine in others
        ]
        # Nobody asks for less than all jobs here: the engine of those who do is the same one.
        with (
            patch.object(store, "_engine", _one_engine),
            patch.object(store, "make_views", lambda engine: engine),
            patch.object(sqlite.FileWriting, "beat_s", None),  # real time; what it tries would count as a side effect
        ):
            self.cluster = Cluster(
                directory,
                ClusterSettings(hosts=hosts, host_grace=HOST_GRACE_S, idle_after=IDLE_S),
                make_host=lambda *_: EmbeddedHost(
                    embedded.host_id, "fake", "fake", embedded, [] if embedded.gpus else gpus, probe=embedded.gpus
                ),
                make_runtime=lambda row: engines[row.id],
                make_probe=lambda row, fetch: engines[row.id].gpus,  # type: ignore[arg-type,return-value]
                features=[SweepWorker, Recurring],
                timing=Timing(time.clock, time.monotonic, lambda *_: VirtualPool(self.pending), self._later),
            )
        self._observe_effects()

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        """A timer ends with its process."""
        self._time.after(delay_s, lambda: None if self._dead else call())

    def die(self) -> None:
        """Lets go of the files as the system does for a process that was killed; nothing is finished or told."""
        self.pending.clear()
        self._dead = self._effects.dead = True
        event.remove(self.cluster.db.engine, "commit", self._commit)
        self.cluster.db.close()
        for lock in self.cluster._locks:
            lock.close()

    # What its threads do.

    def turn(self) -> None:
        """As the loop's thread: what a turn raises ends this turn."""
        try:
            self.cluster.loop.turn()
        except StoreError:
            pass  # the loop logs it, and the next turn starts afresh

    def run_schedules(self) -> None:
        """As the thread of schedules."""
        try:
            self.cluster.worker(Recurring).use_cases.run_due()
        except StoreError:
            pass  # it is logged, and tried again

    def observe(self, host_id: str) -> None:
        with patch.object(HostWatch, "start", lambda watch: None):  # `hear` does what its thread does
            if host_id in self.cluster.agents:
                self.cluster.agents[host_id].observe()

    def hear(self, host_id: str) -> bool:
        """As the thread that follows a host's probe. Whether what it tells was taken."""
        watch = self.cluster.monitor._watches.get(host_id)
        if watch is None:
            return False
        try:
            watch._take_readings()
        except StoreError:
            watch._probe.listen()  # type: ignore[attr-defined]  # it is followed anew
            return False
        return True

    def return_gpu(self, host_id: str, uuid: str) -> None:
        """As an operator who has mended it."""
        try:
            self.cluster.monitor.return_gpu(host_id, uuid)
        except (ConflictError, NotFoundError, StoreError):
            pass  # it is in service, or a job is about to leave it

    def open_host(self, host_id: str) -> None:
        """As an operator."""
        self.cluster.fleet.set_state(host_id, "active")

    def act(self, at_most: int = 1) -> None:
        for _ in range(at_most):
            if not self.pending:  # others take from it meanwhile
                return
            self.pending.pop(self._rng.randrange(len(self.pending)))()

    def submit(self, specs: Iterable[Any]) -> list[str]:
        """Ids of the jobs, once they are acknowledged; none of them if the service said that it failed."""
        with patch("schedulearn.scheduler.store.job_rows.new_job_id", lambda: f"job{next(self._job_ids):07d}"):
            try:
                return [str(row["id"]) for row in self.cluster.service.submit(list(specs)).result()]
            except StoreError:
                return []

    # What its database does.

    def _observe_effects(self) -> None:
        db = self.cluster.db
        submit = db.submit

        def numbered(change: Callable[[Any], Any]) -> Future[Any]:
            def effect() -> Future[Any]:
                future = submit(change)
                wait([future])  # one change a commit: how many share one is a matter of threads
                return future

            return self._effects.do("commit", effect)

        db.submit = numbered  # type: ignore[method-assign]
        event.listen(db.engine, "commit", self._commit)

    def _commit(self, _connection: Any) -> None:
        if self.failing_commits > 0:
            self.failing_commits -= 1
            raise OperationalError("COMMIT", None, Exception("database or disk is full"))
