"""Fleet of all hosts, with one agent for each host's database row."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sqlalchemy.engine import Connection

from schedulearn.scheduler.background import MACHINE, Timing, start_once
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.core.job_image import split_layered
from schedulearn.scheduler.core.registries import NO_LOGIN
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.errors import ConflictError, ImageUnavailable, RuntimeFault
from schedulearn.scheduler.hosts.agent import DataSource, HostAgent, ImageSource
from schedulearn.scheduler.hosts.agent_directory import AgentDirectory
from schedulearn.scheduler.hosts.embedded import EmbeddedHost, simulated_gpus
from schedulearn.scheduler.hosts.image_access import ImageAccess
from schedulearn.scheduler.hosts.transfer import transfer
from schedulearn.scheduler.runtimes.contract import FetchProgress, Runtime, UntrackedFile
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.store import gpus, hosts, repository
from schedulearn.scheduler.store.cluster_state import live_tasks
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.people.registry_logins import RegistryLogins
from schedulearn.scheduler.telemetry.monitor import Monitor
from schedulearn.scheduler.telemetry.probes import Probe

_BASE_SHARE = 0.7
"""Share of the base image in the progress, if it must be fetched before its layer is added."""


@dataclass(frozen=True)
class RemoteHost:
    """Address of a host that was added."""

    id: str
    address: str
    tls: Path | None
    """Folder with the certificates for the host."""
    simulated_gpus: int | None
    """Number of simulated GPUs; None: a probe finds real ones."""


MakeRuntime = Callable[[RemoteHost], Runtime]
"""Host -> its runtime."""

BringCheckpoints = Callable[[str, str, Runtime], Iterator[FetchProgress]]
"""As `checkpoints.Checkpoints.fetch`."""
TellUntrackedFiles = Callable[[str, str, Sequence[UntrackedFile]], None]
"""As `outputs.Outputs.tell_untracked_files`."""
MakeProbe = Callable[[RemoteHost, ImageSource], Probe]
"""A host and its way to images -> its probe, which connects to nothing yet."""

_OURS = "schedulearn/"  # images that take minutes to build: another host's copy is the better source
_CLOSE_S = 10.0


class Fleet:
    """Current hosts (`agents`), changed by `add` and `remove`."""

    def __init__(
        self,
        db: Database,
        cluster_id: str,
        directory: AgentDirectory,
        make_runtime: MakeRuntime,
        on_change: Callable[[], None],
        *,
        monitor: Monitor,
        make_probe: MakeProbe | None,
        bring_checkpoints: BringCheckpoints,
        logins: RegistryLogins,
        tell_untracked_files: TellUntrackedFiles = lambda host_id, task_id, files: None,
        data_source: Callable[[str], DataSource | None] = lambda host_id: None,
        timing: Timing = MACHINE,
    ) -> None:
        """`monitor` gets the probes of hosts without simulated GPUs, made by `make_probe`."""
        self.db = db
        self._monitor = monitor
        self._make_probe = make_probe
        self._bring_checkpoints = bring_checkpoints
        self._logins = logins
        self._tell_untracked_files = tell_untracked_files
        self._data_source = data_source
        self._timing = timing
        self.clock = timing.clock
        self._cluster_id = cluster_id
        self._make_runtime = make_runtime
        self._on_change = on_change
        self._lock = threading.Lock()
        self._directory = directory
        self._started = False

    @property
    def agents(self) -> Mapping[str, HostAgent]:
        return self._directory.agents()

    def open(self, embedded: EmbeddedHost, named: Sequence[HostSpec]) -> None:
        """Create agents for the embedded host, the hosts in the settings and those in the database.

        Connects to none of them yet. Raises ConflictError if two hosts in `named` have the same name, or one has the
        name of the embedded host."""
        self.db.write(lambda db: _register(db, embedded, self.clock()))
        self.db.write(lambda db: self._take_settings(db, named))
        self._attach(embedded.id, embedded.runtime, None, lambda fetch: embedded.probe, embedded.unknown)
        with self.db.read() as db:
            rows = hosts.list_hosts(db)
        for row in rows:
            if row.id != embedded.id:
                self._connect(row)

    def start(self) -> None:
        self._started = True
        for agent in self.agents.values():
            agent.start()

    def close(self) -> None:
        """Close all agents in parallel, and wait at most `_CLOSE_S` seconds for them."""
        closing = [start_once(f"close-{host_id}", agent.close) for host_id, agent in self.agents.items()]
        end = time.monotonic() + _CLOSE_S
        for thread in closing:
            thread.join(max(0.0, end - time.monotonic()))

    def add(self, spec: HostSpec) -> None:
        """Store a host, then connect to it.

        Raises ConflictError if the name or the address is taken."""

        def change(db: Connection) -> hosts.HostRow:
            if any(row.id == spec.name for row in hosts.list_hosts(db)):
                raise ConflictError(f"a host {spec.name!r} already exists: remove it first, or set another `name`")
            hosts.put_spec(db, spec, "api", self.clock())
            return hosts.get_host(db, spec.name)

        self._connect(self.db.write(change))
        self._on_change()

    def remove(self, host_id: str, *, force: bool = False) -> None:
        """Remove a host.

        With `force`, tasks that have containers there count as lost, and their jobs start elsewhere. Without it, such
        tasks raise ConflictError. A host that was not added through the API raises ConflictError, too."""

        def change(db: Connection) -> None:
            row = hosts.get_host(db, host_id)
            if row.origin != "api":
                where = "the settings file" if row.origin == "settings" else "this service (see --simulate-gpus 0)"
                raise ConflictError(f"{host_id} belongs to {where}: it can't be removed; cordon or drain it instead")
            live = live_tasks(db, host_id)
            if live and not force:
                jobs = ", ".join(sorted({task.job_id for task in live})[:5])
                raise ConflictError(
                    f"jobs have containers on {host_id} ({jobs}): drain it first, or remove it with force"
                )
            now = self.clock()
            for task in live:
                repository.end_task(db, task, outcome=Reason.HOST_LOST.value, now=now, error=f"{host_id} was removed")
            hosts.delete_host(db, host_id, now)

        self.db.write(change)
        with self._lock:
            agent = self.agents.get(host_id)
            self._directory.replace({key: value for key, value in self.agents.items() if key != host_id})
        self._monitor.leave(host_id)
        if agent is not None:  # in the background, because it waits for actions under way
            start_once(f"close-{host_id}", agent.close)
        self._on_change()

    def drain(self, host_id: str, deadline_s: float) -> hosts.HostRow:
        """Cordon a host and move its jobs to other hosts.

        Elastic jobs leave now. The others are stopped after the deadline and start elsewhere."""
        until = self.clock() + deadline_s
        row = self.db.write(lambda db: hosts.set_state(db, host_id, "cordoned", self.clock(), until))
        self._on_change()
        return row

    def set_state(self, host_id: str, state: str) -> hosts.HostRow:
        """Set the state of a host to `cordoned` or `active`; either ends a drain."""
        row = self.db.write(lambda db: hosts.set_state(db, host_id, state, self.clock()))
        self._on_change()
        return row

    def label(self, host_id: str, labels: Mapping[str, str | None]) -> None:
        """Set labels of a host, and remove those without a value."""
        self.db.write(lambda db: hosts.set_labels(db, host_id, labels, self.clock()))
        self._on_change()

    def close_gpu(self, host_id: str, name: str, deadline_s: float | None = None) -> None:
        """Cordon a GPU, given by index or UUID. Raises NotFoundError.

        With a deadline, drain it as `drain` does a host."""
        until = None if deadline_s is None else self.clock() + deadline_s
        self.db.write(lambda db: gpus.close_gpu(db, host_id, name, self.clock(), until))
        self._on_change()

    def _connect(self, row: hosts.HostRow) -> None:
        host = RemoteHost(row.id, row.address, Path(row.tls) if row.tls else None, row.simulated_gpus)
        make_probe = None if host.simulated_gpus else self._make_probe
        self._attach(
            host.id,
            self._make_runtime(host),
            host.simulated_gpus,
            lambda fetch: None if make_probe is None else make_probe(host, fetch),
        )

    def _attach(
        self,
        host_id: str,
        runtime: Runtime,
        simulate: int | None,
        make_probe: Callable[[ImageSource], Probe | None],
        unknown: str = "",
    ) -> None:
        """Create the agent of a host, and start it if the fleet is started.

        `unknown`: the reason why its GPUs can't be listed, if there is one."""

        access = ImageAccess(self.db, self._logins, runtime.images, partial(self._engine_of, host_id), self.clock)

        def fetch(image: str, login: int = NO_LOGIN, /) -> Iterator[FetchProgress]:
            if split_layered(image)[1]:
                return self._add_layer(host_id, runtime, access, image, login)
            return self._fetch(host_id, runtime, access, image, login)

        probe = make_probe(fetch)

        def contacted(facts: HostFacts) -> None:
            self.db.write(lambda db: self._record(db, host_id, facts, simulate))
            start_once(f"terminals-{host_id}", runtime.terminals.clean)
            if probe is not None and host_id in self.agents:
                image = partial(self.agents[host_id].image_here, "schedulearn/pytorch", with_gpus=True)
                self._monitor.follow(host_id, probe, unknown, runtime.cuda_check(image))

        agent = HostAgent(
            host_id,
            runtime,
            self._on_change,
            on_contact=contacted,
            image_source=fetch,
            access=access,
            checkpoint_source=lambda job_id: self._bring_checkpoints(job_id, host_id, runtime),
            on_untracked_files=partial(self._tell_untracked_files, host_id),
            data_source=self._data_source(host_id),
            gpus=partial(self._monitor.gpus, host_id),
            timing=self._timing,
        )
        with self._lock:
            self._directory.replace({**self.agents, host_id: agent})
        if self._started:
            agent.start()

    def _engine_of(self, host_id: str) -> str:
        agent = self.agents.get(host_id)
        facts = agent.status.facts if agent is not None else None
        if facts is None:
            raise RuntimeFault(f"{host_id} has not answered yet")
        return facts.engine_id

    def _add_layer(
        self, host_id: str, runtime: Runtime, access: ImageAccess, image: str, login: int
    ) -> Iterator[FetchProgress]:
        """Install requirements on top of an image, which is fetched first if it is missing.

        Each host does this itself."""
        base, layer = split_layered(image)
        if not runtime.images.has(base) or access.allowed_id(base, login) is None:
            for step in self._fetch(host_id, runtime, access, base, login):
                yield replace(step, percent=_BASE_SHARE * step.percent)
        with self.db.read() as db:
            lines = repository.requirements_of(db, layer)
        for step in runtime.images.add_layer(image, lines):
            yield replace(step, percent=100 * _BASE_SHARE + (1 - _BASE_SHARE) * step.percent)

    def _record(self, db: Connection, host_id: str, facts: HostFacts, simulate: int | None) -> None:
        hosts.record_engine(db, host_id, facts.engine_id)
        if simulate is not None:
            repository.sync_gpus(db, host_id, simulated_gpus(self._cluster_id, host_id, simulate))

    def _take_settings(self, db: Connection, named: Sequence[HostSpec]) -> None:
        now = self.clock()
        names = [spec.name for spec in named]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise ConflictError(f"the settings name host {doubled.pop()!r} twice", field="hosts")
        known = {row.id: row for row in hosts.list_hosts(db)}
        for row in known.values():
            if row.origin == "settings" and row.id not in names:
                if live_tasks(db, row.id):
                    hosts.set_state(db, row.id, "cordoned", now)
                else:
                    hosts.delete_host(db, row.id, now)
        for spec in named:
            if spec.name in known and known[spec.name].origin == "embedded":
                raise ConflictError(f"{spec.name!r} is this service's own host: choose another name", field="hosts")
            hosts.put_spec(db, spec, "settings", now)

    def _fetch(
        self, host_id: str, runtime: Runtime, access: ImageAccess, image: str, login: int
    ) -> Iterator[FetchProgress]:
        """Fetch an image from another host, or as the runtime does it.

        Another host is the source of images that take long to build, and of images that the runtime can't fetch. An
        image that is here stays if it can't be fetched anew."""
        if image.startswith(_OURS) and runtime.images.has(image):
            return
        if image.startswith(_OURS) and (source := self._owner(image, host_id, login)) is not None:
            yield from access.fetch(image, login, partial(_copy, source, runtime, image))
            return
        try:
            with_login = access.credentials(image, login)
            yield from access.fetch(image, login, partial(runtime.images.fetch, image, with_login))
        except ImageUnavailable:
            source = self._owner(image, host_id, login) if not runtime.images.has(image) else None
            if source is None:
                raise
            yield from access.fetch(image, login, partial(_copy, source, runtime, image))

    def _owner(self, image: str, wanted_by: str, login: int) -> HostAgent | None:
        """Return the agent of another host that answers, shares images and has this one for this login."""
        for host_id, agent in self.agents.items():
            status = agent.status
            if (
                host_id == wanted_by
                or status.observation is None
                or status.facts is None
                or not status.facts.shares_images
            ):
                continue
            try:
                if agent.may_share(image, login):
                    return agent
            except RuntimeFault:
                continue
        return None


def _register(db: Connection, host: EmbeddedHost, now: float) -> None:
    hosts.put_host(db, host.id, address=host.address, runtime=host.runtime_name, origin="embedded")
    if host.probe is None:
        repository.sync_gpus(db, host.id, host.gpus)  # else the probe reports them
    elif host.unknown:  # now, before the first job could start there
        gpus.found_gpus(db, host.id, (), now, gpus.driver_of(db, host.id), host.unknown)


def _copy(source: HostAgent, target: Runtime, image: str) -> Iterator[FetchProgress]:
    """Copy an image from one host to another, through the service."""
    yield from transfer(source.runtime.images.save(image), target.images.load, f"copying {image} from {source.host_id}")
    if not target.images.has(image):
        raise RuntimeFault(f"{image} was copied from {source.host_id}, but is missing afterwards")
