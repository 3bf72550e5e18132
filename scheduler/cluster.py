"""Everything that runs, put together: the database, the hosts, the loop and the use cases."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from sqlalchemy import insert
from sqlalchemy.engine import Connection

from schedulearn.scheduler.control.forecaster import Forecaster
from schedulearn.scheduler.control.image_fetches import time_left
from schedulearn.scheduler.control.job_logs import JobLogBounds, JobLogs
from schedulearn.scheduler.control.loop import SchedulerLoop
from schedulearn.scheduler.control.service import Service
from schedulearn.scheduler.control.webhooks import Webhooks
from schedulearn.scheduler.core.limits import check_data_sets
from schedulearn.scheduler.core.task import ObservedTask
from schedulearn.scheduler.errors import StoreError
from schedulearn.scheduler.hosts.agent import HostAgent, ImageSource
from schedulearn.scheduler.hosts.checkpoints import COPY_S, Checkpoints, Copies
from schedulearn.scheduler.hosts.disk_cleanup import Housekeeping, Room
from schedulearn.scheduler.hosts.embedded import EmbeddedHost
from schedulearn.scheduler.hosts.fleet import Fleet, MakeProbe, MakeRuntime, RemoteHost
from schedulearn.scheduler.hosts.parking import Parking
from schedulearn.scheduler.private_files import close_to_others
from schedulearn.scheduler.reports.access import ReportAccess, report_secret
from schedulearn.scheduler.reports.profiles import Profiles
from schedulearn.scheduler.reports.silence import SilenceWatch
from schedulearn.scheduler.runtimes.contract import Runtime
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.models import Meta
from schedulearn.scheduler.telemetry.monitor import ClusterUtility, Monitor
from schedulearn.scheduler.telemetry.probes import Probe

MakeHost = Callable[[str], EmbeddedHost]
"""cluster id -> the embedded host; called once the database is open."""


class Cluster:
    """One service over one data directory. Raises StoreError if another service holds the directory already."""

    def __init__(
        self,
        data_dir: Path,
        make_host: MakeHost,
        *,
        database_url: str | None = None,
        interval_s: float = 60.0,
        max_gpus_per_job: int | None = None,
        hosts: Sequence[HostSpec] = (),
        host_grace_s: float = 60.0,
        scale_window_s: float = 600.0,
        scaling_hook: str = "",
        make_runtime: MakeRuntime | None = None,
        on_commit: Callable[[], None] = lambda: None,
        report_url: Callable[[str], str | None] = lambda runtime: None,
        report_interval_s: float = 30.0,
        report_grace_s: float = 180.0,
        checkpoint_interval_s: float = 300.0,
        keep_checkpoints_s: float = 86_400.0,
        checkpoint_copies_bytes: int = 50 << 30,
        data_sets: Mapping[str, str] | None = None,
        images: Sequence[str] = (),
        room: Room | None = None,
        job_logs: JobLogBounds | None = None,
        keep_telemetry_days: float = 7.0,
        make_probe: MakeProbe | None = None,
    ) -> None:
        check_data_sets(data_sets or {})
        close_to_others(data_dir)
        self.data_dir = data_dir
        self._lock = lock_data_folder(data_dir)
        self.db = Database(database_url or sqlite_url(data_dir), on_commit)
        self.cluster_id = self.db.write(_cluster_id)
        self.host = make_host(self.cluster_id)
        self.monitor = Monitor(
            self.db,
            self._tasks_on,
            lambda: self.loop.wake(),
            keep_days=keep_telemetry_days,
            standing=lambda: self.standing,
        )
        copies = Copies(data_dir / "checkpoint-copies", checkpoint_copies_bytes)
        every_s = min(COPY_S, checkpoint_interval_s)
        self.checkpoints = Checkpoints(self.db, lambda: self.agents, copies, keep_checkpoints_s, every_s)
        self.fleet = Fleet(
            self.db,
            self.cluster_id,
            make_runtime or self._docker,
            lambda: self.loop.wake(),
            monitor=self.monitor,
            make_probe=make_probe or (self._docker_probe if make_runtime is None else None),
            bring_checkpoints=self.checkpoints.fetch,
        )
        self.fleet.open(self.host, hosts)
        self.reports = ReportAccess(
            self.db.write(report_secret), report_url(self.host.runtime_name), report_interval_s, checkpoint_interval_s
        )
        self.silence = SilenceWatch(self.db, self.reports.url, report_interval_s, report_grace_s)
        self.profiles = Profiles(self.db, lambda: self.loop.wake())
        self.service = Service(
            self.db, lambda: self.loop.wake(), max_gpus_per_job=max_gpus_per_job, data_sets=frozenset(data_sets or ())
        )
        self.loop = SchedulerLoop(
            self.db,
            lambda: self.fleet.agents,
            lambda: self.service.policy,
            interval_s=interval_s,
            host_grace_s=host_grace_s,
            scale_window_s=scale_window_s,
            utilization=self.utilization,
            monitor=self.monitor,
            profiles=self.profiles,
            job_env=self.reports.env,
            silence=self.silence,
            data_sets=data_sets,
            on_attempt_end=lambda job_id, attempt: self.job_logs.attempt_ended(job_id, attempt),
        )
        self.forecaster = Forecaster(
            self.db,
            lambda: self.service.policy,
            self.profiles,
            self._reachable,
            self.utilization,
            lambda job, hosts: time_left(self.agents, job, hosts),
        )
        self.parking: Parking | None = None
        if scaling_hook:
            self.parking = Parking(
                self.db,
                scaling_hook,
                lambda: self.loop.desired_hosts,
                self._reachable,
                lambda: self.loop.wake(),
                settle_s=scale_window_s,
            )
        self.webhooks = Webhooks(self.db)
        self._on_commit = on_commit
        self.db.after_commit = self._committed
        self.logs = LogStore(data_dir / "logs")
        self.job_logs = JobLogs(self.db, self.logs, job_logs or JobLogBounds())
        self.housekeeping = Housekeeping(self.db, lambda: self.agents, self.logs, room or Room(), images)

    @property
    def agents(self) -> Mapping[str, HostAgent]:
        return self.fleet.agents

    @property
    def agent(self) -> HostAgent:
        """That of the embedded host."""
        return self.fleet.agents[self.host.id]

    def _docker(self, host: RemoteHost) -> Runtime:
        from schedulearn.scheduler.runtimes.docker.runtime import (
            DockerRuntime,  # not free at start, and not always needed
        )

        return DockerRuntime(host.id, host.address, self.data_dir, self.cluster_id, tls=host.tls)

    def _docker_probe(self, host: RemoteHost, fetch: ImageSource) -> Probe:
        from schedulearn.scheduler.runtimes.docker.probe import ContainerProbe

        return ContainerProbe(host.address, self.cluster_id, fetch, tls=host.tls)

    def _tasks_on(self, host_id: str) -> Sequence[ObservedTask] | None:
        agent = self.agents.get(host_id)
        observation = agent.status.observation if agent is not None else None
        return observation.tasks if observation is not None else None

    def _reachable(self) -> set[str]:
        return {host_id for host_id, agent in self.agents.items() if agent.status.observation is not None}

    def utilization(self, uuid: str) -> float | None:
        """Measured, in per cent; None where it can't be told, and for simulated GPUs."""
        measured = self.monitor.utilization(uuid)
        return measured if measured is not None else self.host.utilization(uuid)

    def _committed(self) -> None:
        self._on_commit()
        self.webhooks.beat()

    @property
    def standing(self) -> ClusterUtility:
        """How well used the policy finds the cluster now, and within what the number of hosts may stay."""
        scaling = self.service.policy.scaling
        low, high = (scaling.low, scaling.high) if scaling is not None else (None, None)
        return ClusterUtility(self.loop.utility, low, high)

    def start(self) -> None:
        self.monitor.start()
        self.profiles.start()
        self.job_logs.start()
        self.loop.start()
        self.fleet.start()
        self.checkpoints.start()
        self.housekeeping.start()
        self.forecaster.start()
        self.webhooks.start()
        if self.parking:
            self.parking.start()

    def close(self) -> None:
        """Lets go of everything; containers go on."""
        if self.parking:
            self.parking.close()
        self.forecaster.close()
        self.housekeeping.close()
        self.checkpoints.close()
        self.loop.close()
        self.job_logs.close()
        self.profiles.close()
        self.monitor.close()
        self.fleet.close()
        self.webhooks.close()
        self.db.close()
        self._lock.close()


def lock_data_folder(data_dir: Path) -> IO[str]:
    """Held until it is closed: two services over one database would both start its jobs. Raises StoreError while
    another holds it."""
    handle = (data_dir / "schedulearn.lock").open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        owner = handle.read().strip()
        handle.close()
        raise StoreError(
            f"another Schedulearn (process {owner or 'unknown'}) uses {data_dir}: stop it, or choose another --data"
        ) from error
    handle.truncate(0)
    handle.write(str(os.getpid()))
    handle.flush()
    return handle


def _cluster_id(db: Connection) -> str:
    found = repository.meta(db, "cluster_id")
    if found is None:
        found = uuid.uuid4().hex
        db.execute(insert(Meta).values(key="cluster_id", value=found))
    return found
