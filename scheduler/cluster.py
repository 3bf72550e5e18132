"""Everything that runs, put together: the database, the hosts, the loop and the use cases."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

from sqlalchemy.engine import Connection, make_url

from schedulearn.scheduler.background import MACHINE, Timing, Worker
from schedulearn.scheduler.code.store import CodeStore, check_room
from schedulearn.scheduler.control.clock_watch import ClockWatch
from schedulearn.scheduler.control.fetching import time_left
from schedulearn.scheduler.control.forecaster import Forecaster
from schedulearn.scheduler.control.job_logs import JobLogs
from schedulearn.scheduler.control.loop import SchedulerLoop
from schedulearn.scheduler.control.retention import Retention
from schedulearn.scheduler.control.service import Service
from schedulearn.scheduler.control.settings_log import note_settings
from schedulearn.scheduler.core.host_scaling import Switching
from schedulearn.scheduler.core.planning.limits import check_data_sets, check_writable
from schedulearn.scheduler.data.store import DataStore
from schedulearn.scheduler.disk_room import give_reserve, is_low, take_reserve
from schedulearn.scheduler.errors import InUseError, SchedulearnError, StoreError
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.hosts.agent_directory import AgentDirectory
from schedulearn.scheduler.hosts.checkpoints import COPY_S, Checkpoints, Copies
from schedulearn.scheduler.hosts.data.data_sets import DataSets
from schedulearn.scheduler.hosts.data.kept import KeptOutputs
from schedulearn.scheduler.hosts.data.sources import HostData
from schedulearn.scheduler.hosts.disk_cleanup import Housekeeping
from schedulearn.scheduler.hosts.docker_hosts import DockerHosts
from schedulearn.scheduler.hosts.embedded import HOST_ID, Before, EmbeddedHost, embedded_host
from schedulearn.scheduler.hosts.fleet import Fleet, MakeProbe, MakeRuntime
from schedulearn.scheduler.hosts.job_files import JobFiles
from schedulearn.scheduler.hosts.outputs import DAY_S, Outputs
from schedulearn.scheduler.hosts.parking import HostParking
from schedulearn.scheduler.hosts.running_tasks import RunningTasks
from schedulearn.scheduler.private_files import close_to_others
from schedulearn.scheduler.reports.access import ReportAccess, report_secret
from schedulearn.scheduler.reports.hangs import HangWatch
from schedulearn.scheduler.reports.log_reader import LogReader
from schedulearn.scheduler.reports.profiles import Profiles
from schedulearn.scheduler.reports.rate import RateLimit
from schedulearn.scheduler.reports.silence import SilenceWatch
from schedulearn.scheduler.runtimes.contract import FetchProgress, Runtime
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import gpus, hosts, identity
from schedulearn.scheduler.store.cluster_state import has_tasks_elsewhere, tasks_of
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.people.notices import check_recipients
from schedulearn.scheduler.store.people.quota_book import QuotaBook
from schedulearn.scheduler.store.people.registry_logins import RegistryLogins
from schedulearn.scheduler.store.people.secrets import Secrets
from schedulearn.scheduler.store.repository import JobRow
from schedulearn.scheduler.telemetry.monitor import ClusterUtility, Monitor
from schedulearn.scheduler.telemetry.resources import ResourceWatch

log = logging.getLogger(__name__)

MakeHost = Callable[[Path, str, ClusterSettings, Before], EmbeddedHost]
"""Data folder, cluster id, settings and what was before -> the embedded host; called once the database is open."""
P = TypeVar("P")
FindReportUrl = Callable[[str], str | None]
"""Runtime of the embedded host -> URL at which its containers reach the API; None: they can't."""


class Cluster:
    """One service over one data directory. Raises StoreError if another service holds the directory already."""

    def __init__(
        self,
        data_dir: Path,
        settings: ClusterSettings,
        *,
        make_host: MakeHost = embedded_host,
        make_runtime: MakeRuntime | None = None,
        make_probe: MakeProbe | None = None,
        find_report_url: FindReportUrl | None = None,
        on_commit: Callable[[], None] | None = None,
        features: Sequence[Callable[[Cluster], Worker]] = (),
        own_port: int = 0,
        report_certificate: str | None = None,
        timing: Timing = MACHINE,
    ) -> None:
        """`make_runtime` and `make_probe` are for further hosts; by default these are Docker Engines, with our probe.
        `find_report_url` is asked where the settings name none. `on_commit` is called from the writer's thread.
        `features`: what makes the worker of each. `own_port`: where the API listens. `report_certificate`: see
        `ReportAccess`."""
        check_data_sets(settings.data_sets)
        check_writable(settings.writable_data_sets, settings.data_sets)
        self.data_dir = data_dir
        self.settings = settings
        self.timing = timing
        self._wake = threading.Event()
        self._directory = AgentDirectory()
        self.own_port = own_port
        self.after_commit: list[Callable[[], None]] = [] if on_commit is None else [on_commit]
        """Called from the writer's thread."""
        self._open_database()
        store = DataStore(
            data_dir / "data-sets",
            max_bytes=settings.data_limit,
            max_files=settings.data_files,
            room=settings.data_store,
            per_user=settings.data_per_user,
        )
        self.data = DataSets(self.db, store)
        with self.db.read() as conn:
            self._had_several_hosts = has_tasks_elsewhere(conn, HOST_ID)
            before = Before(hosts.runtime_of(conn, HOST_ID), gpus.has_real(conn, HOST_ID))
        self.host = make_host(data_dir, self.cluster_id, settings, before)
        self.secrets = Secrets(self.db, data_dir)
        self.registry_logins = RegistryLogins(self.db, self.secrets)
        self.after_commit.append(self.registry_logins.committed)
        self._open_hosts(make_runtime, make_probe)
        self._open_reports(find_report_url, report_certificate)
        self.code = CodeStore(data_dir / "code", max_bytes=settings.code_limit)
        self.service = Service(
            self.db,
            self._wake.set,
            max_gpus_per_job=settings.max_gpus_per_job,
            data_sets=settings.data_sets.keys(),
            writable=settings.writable_data_sets,
            use_code=self.code.use,
            quotas=QuotaBook(self.db, fair_share=settings.fair_share, timing=timing),
            check_secrets=self.secrets.check,
            check_recipients=self._check_recipients,
            check_room=partial(check_room, data_dir),
            later=timing.later,
            clock=timing.clock,
        )
        self._open_logs()
        self._open_loop()
        self._of_features = [make(self) for make in features]
        self._acting: Sequence[Worker] = [self.monitor, self.profiles, self.job_logs, self.log_reader, self.loop]
        self._of_hosts: Sequence[Worker] = [self.fleet, self.resources]
        self._others: Sequence[Worker] = [
            self.checkpoints, self.outputs, self.kept_outputs, self.housekeeping, self.retention, self.forecaster,
            *self._of_features, *([self.parking] if self.parking else []),
        ]  # fmt: skip

    def worker(self, kind: type[P]) -> P:
        """Return the worker of a feature."""
        [found] = [each for each in self._of_features if isinstance(each, kind)]
        return found

    def _open_database(self) -> None:
        close_to_others(self.data_dir)
        if is_low(self.data_dir):
            give_reserve(self.data_dir)  # to start with
        take_reserve(self.data_dir)
        url = self.settings.database_url
        self._locks = [lock_data_folder(self.data_dir, url)]
        try:
            if url is not None:
                self._locks += lock_database(url, self.data_dir)
            new_id = identity.new_id(self.data_dir, url)
            self.db = Database(
                url or sqlite_url(self.data_dir),
                on_deposed=_end,
                on_lost=_end_without_files,
                make_room=partial(give_reserve, self.data_dir),
            )
        except BaseException:
            self._unlock()
            raise
        self.db.after_commit = self._committed
        self.cluster_id = self.db.write(partial(identity.cluster_id, new=new_id))
        self.clock_watch = ClockWatch(self.db, self.timing)

    def _open_hosts(self, make_runtime: MakeRuntime | None, make_probe: MakeProbe | None) -> None:
        chosen, wake, aged = self.settings, self._wake.set, self.clock_watch.aged
        docker = DockerHosts(self.data_dir, self.cluster_id)
        self.resources = ResourceWatch(
            self.db,
            self._directory.watched,
            keep_days=chosen.keep_telemetry,
            aged=aged(chosen.keep_telemetry * DAY_S),
        )
        self.monitor = Monitor(
            self.db,
            self._directory.tasks_on,
            wake,
            keep_days=chosen.keep_telemetry,
            utility=self.utility,
            timing=self.timing,
            hear_machine=self.resources.hear_machine,
            aged=aged(chosen.keep_telemetry * DAY_S),
        )
        copies = Copies(self.data_dir / "checkpoint-copies", chosen.checkpoint_copies)
        every_s = min(COPY_S, chosen.checkpoint_interval)
        keep_s = chosen.keep_checkpoints
        self.checkpoints = Checkpoints(
            self.db, self._directory.agents, copies, keep_s, every_s, self.timing.clock, aged(keep_s)
        )
        keep_s = chosen.keep_outputs * DAY_S
        self.outputs = Outputs(self.db, self._directory.agents, keep_s, self.timing.clock, aged(keep_s))
        self.files = JobFiles(self.db, self._directory.agents)
        self.running_tasks = RunningTasks(self.db, self._directory.agents)
        self.kept_outputs = KeptOutputs(self.db, self.data.store, self.files)
        self.fleet = Fleet(
            self.db,
            self.cluster_id,
            self._directory,
            make_runtime or docker.runtime,
            wake,
            monitor=self.monitor,
            make_probe=make_probe or (docker.probe if make_runtime is None else None),
            bring_checkpoints=self._bring,
            logins=self.registry_logins,
            tell_untracked_files=self.outputs.tell_untracked_files,
            data_source=lambda host_id: HostData(host_id, self.db, self.data.store, self._directory.agents),
            timing=self.timing,
        )
        self.fleet.open(self.host, chosen.hosts)

    def _bring(self, job_id: str, host_id: str, runtime: Runtime) -> Iterator[FetchProgress]:
        """What a job needs where it goes on."""
        yield from self.checkpoints.fetch(job_id, host_id, runtime)
        yield from self.outputs.fetch(job_id, host_id, runtime)

    def _open_reports(self, find_report_url: FindReportUrl | None, certificate: str | None) -> None:
        chosen = self.settings
        url = chosen.report_url
        if url is None and find_report_url is not None:
            url = find_report_url(self.host.runtime_name)
        secret = self.db.write(report_secret)
        # Four times as often as told to, and a resize makes all workers ask at once, several times.
        self.report_rate = RateLimit(max(1.0, 4 / chosen.report_interval), 60, time.monotonic)
        self.membership_rate = RateLimit(10, 300, time.monotonic)
        self.reports = ReportAccess(secret, url, chosen.report_interval, chosen.checkpoint_interval, certificate)
        self.silence = SilenceWatch(self.db, url, chosen.report_interval, chosen.report_grace)
        self.profiles = Profiles(
            self.db, self._wake.set, self.timing.monotonic, self.timing.clock, hints=not chosen.hide_jobs
        )

    def _open_logs(self) -> None:
        chosen = self.settings
        self.logs = LogStore(self.data_dir / "logs")
        self.job_logs = JobLogs(self.db, self.logs, max_attempts=chosen.job_log_attempts, max_bytes=chosen.job_log_room)
        self.log_reader = LogReader(
            self.db, self.logs, self.secrets.env_of, self.profiles.progress_changed, self.timing.clock
        )
        self.hangs = HangWatch(self.db, self.logs, self.utilization, chosen, self.timing.monotonic)
        self.service.on_delete = self._deleted
        self.service.stop_now = self._stop_now
        self.housekeeping = Housekeeping(
            self.db, self._directory.agents, self.logs, self.code, chosen, self.data.collect
        )
        self.retention = Retention(self.db, self.service, self.shows, chosen, self.clock_watch.aged)

    def _open_loop(self) -> None:
        chosen = self.settings
        self.loop = SchedulerLoop(
            self.db,
            self._directory.agents,
            self.service.current_policy,
            chosen,
            self._wake,
            utilization=self.utilization,
            monitor=self.monitor,
            profiles=self.profiles,
            job_env=self._job_env,
            code_path=self.code.path,
            silence=self.silence,
            hangs=self.hangs,
            on_attempt_end=self.job_logs.attempt_ended,
            quotas=self.service.quotas.now,
            memory_of=self.resources.memory,
            said=self.logs.said,
            follow_clock=self.clock_watch.look,
            timing=self.timing,
        )
        self.forecaster = Forecaster(
            self.db,
            self.service.current_policy,
            self.profiles,
            self._directory.reachable,
            self.utilization,
            partial(time_left, self._directory.agents),
            host_facts=self._directory.facts,
            cpu_jobs=chosen.cpu_jobs,
            quotas=self.service.quotas.now,
            switching=None if chosen.scaling_rule is None else Switching(chosen.scaling_rule, chosen.scale_window),
        )
        self.parking: HostParking | None = None
        if chosen.scaling_rule is not None:
            self.parking = HostParking(
                self.db,
                chosen.scaling_hook,
                self.loop,
                self._directory.reachable,
                self._wake.set,
                settle_s=chosen.scale_window if chosen.initial_hosts is None else 0.0,
            )

    @property
    def containers_reach_us(self) -> bool:
        """Whether a container may have the network of this machine: one of a job over several hosts, now or left."""
        return self._had_several_hosts or self._directory.most > 1

    @property
    def agents(self) -> Mapping[str, HostAgent]:
        return self._directory.agents()

    def _job_env(self, job_id: str) -> Mapping[str, str]:
        """Variables that only the service knows: how the job reports, and its secrets."""
        try:
            secrets = self.secrets.env_of(job_id)
        except StoreError:
            log.exception("job %s starts without its secrets", job_id)  # the others shall start all the same
            secrets = {}
        return {**secrets, **self.reports.env(job_id)}

    def _check_recipients(self, user: str, recipients: Sequence[str]) -> None:
        if recipients:
            with self.db.read() as conn:
                check_recipients(conn, user, recipients, self.settings.mail_refusal)

    def utilization(self, uuid: str) -> float | None:
        """Measured, in per cent; None where it can't be told, and for simulated GPUs."""
        measured = self.monitor.utilization(uuid)
        return measured if measured is not None else self.host.utilization(uuid)

    def utility(self) -> ClusterUtility:
        """How well used the policy finds the cluster now, and within what the number of hosts may stay."""
        scaling = self.service.current_policy().scaling
        low, high = (scaling.low, scaling.high) if scaling is not None else (None, None)
        return ClusterUtility(self.loop.utility, low, high)

    @property
    def trouble(self) -> SchedulearnError | None:
        """Return what keeps jobs from being stored or scheduled."""
        return self.db.trouble or self.loop.trouble

    def _stop_now(self, conn: Connection, job: JobRow) -> bool:
        agents = self._directory.agents()
        tasks = [task for task in tasks_of(conn, [job.id], live=True) if task.host_id in agents]
        for task in tasks:
            agents[task.host_id].stop_task(task.id, job.grace_period)
        return bool(tasks)

    def _deleted(self, tasks: Sequence[str]) -> None:
        self.job_logs.forget(tasks)
        self.checkpoints.sweep_soon()
        self.outputs.sweep_soon()

    def shows(self, job_id: str) -> bool:
        """Whether a host shows a container of a job."""
        seen = [agent.status.observation for agent in self.agents.values()]
        mark = f"schedulearn-{job_id}-"
        return any(task.task_id.startswith(mark) for each in seen if each is not None for task in each.tasks)

    def _committed(self) -> None:
        for call in self.after_commit:
            call()

    def start(self) -> None:
        now = self.timing.clock()
        try:
            self.db.write(partial(note_settings, values=self.settings.model_dump(), now=now))
        except StoreError:
            log.exception(
                "changed settings could not be recorded"
            )  # a full disk must not keep the service from starting
        for worker in (*self._acting, *self._of_hosts, *self._others):
            worker.start()

    def close(self) -> None:
        """Lets go of everything; containers go on. Hosts come last: what acts would take them for broken."""
        for worker in (*reversed(self._others), *reversed(self._acting), *reversed(self._of_hosts)):
            worker.close()
        self.db.close()
        self._unlock()

    def _unlock(self) -> None:
        for lock in self._locks:
            lock.close()


def _end() -> None:
    """As if it was killed: whatever it still does may be at odds with what the other service does. Containers go on."""
    log.critical(
        "lost the database lock to another instance; exiting. After a restart, this instance waits for its turn"
    )
    logging.shutdown()
    os._exit(1)


def _end_without_files(why: str) -> None:
    """Likewise. The database's last connection must not remove files that another process may have by now."""
    logging.shutdown()
    os._exit(1)


def lock_data_folder(data_dir: Path, url: str | None = None) -> IO[str]:
    """Held until it is closed: two services over one database would both start its jobs. Raises StoreError while
    another holds it. Services on one PostgreSQL (`url`) share it: the database says which of them works, and a service
    that hangs keeps its locks of files for ever."""
    path, what = data_dir / "schedulearn.lock", f"{data_dir}: stop it, or choose another --data"
    if url is None or url.startswith("sqlite"):
        return _locked(path, what)
    return _locked(path, what, shared_by=make_url(url).set(password=None, query={}).render_as_string())


def lock_database(url: str, data_dir: Path) -> list[IO[str]]:
    """The same for a file that is not in the data folder: services with other folders may name it too, or have it in
    theirs. A database of PostgreSQL has a lock of its own."""
    if not url.startswith("sqlite"):
        return []
    file = Path(make_url(url).database or "").resolve()
    if file == (data_dir / "schedulearn.db").resolve():
        return []
    lock = file.with_name("schedulearn.lock" if file.name == "schedulearn.db" else f"{file.name}.lock")
    return [_locked(lock, f"the database {file}: stop it, or choose another database_url")]


def _locked(path: Path, what: str, shared_by: str = "") -> IO[str]:
    """`shared_by`: whoever says the same may hold it too."""
    try:
        handle = path.open("a+")
    except OSError as error:
        raise StoreError(f"{path} can't be created: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        owner, _, shares = handle.read().strip().partition("\n")
        if shared_by == shares != "" and _is_taken(handle, fcntl.LOCK_SH):
            return handle
        handle.close()
        raise InUseError(f"another Schedulearn (process {owner or 'unknown'}) uses {what}") from error
    handle.truncate(0)
    handle.write(f"{os.getpid()}\n{shared_by}" if shared_by else str(os.getpid()))
    handle.flush()
    if shared_by and not _is_taken(handle, fcntl.LOCK_SH):  # between the two somebody may take it
        handle.close()
        raise InUseError(f"another Schedulearn uses {what}")
    return handle


def _is_taken(handle: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
