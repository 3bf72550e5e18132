"""A whole cluster over the fake runtime, and waiting for what it should do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from fakes.runtime import FakeRuntime
from gpu_probes.memory import FakeProbe
from sqlalchemy import select
from sqlmodel import col

from schedulearn.features.sweeps.worker import SweepWorker
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.core.host_facts import FoundGpu
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.hosts.embedded import EmbeddedHost
from schedulearn.scheduler.reports.membership import MembershipIn, record_report
from schedulearn.scheduler.runtimes.contract import FetchProgress
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Gpu, Lease

T = TypeVar("T")


def wait_for(probe: Callable[[], T], *, seconds: float = 60.0, what: str = "", pause: float = 0.01) -> T:
    """The first true answer of `probe`; fails with what it answered last.

    Who has waited for long is asked more seldom: a tenth later, and half of the processor is not spent on asking.
    """
    began = time.monotonic()
    end = began + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s for {what or probe}, last answer {answer!r}")
        time.sleep(min(max(pause, (time.monotonic() - began) / 10), 0.25))


def spec(name: str = "job", gpus: int = 1, **fields: Any) -> JobSpec:
    base: dict[str, Any] = {
        "name": name, "type": "Pytorch", "container_image": "img", "command": "true", "required_gpus": gpus,
        "launcher": "none",
    }  # fmt: skip
    return JobSpec(**{**base, **fields})


class SlowFetch:
    """The fetch of an image that lasts until a test ends it, for `FakeRuntime.fetchable`."""

    def __init__(self, percent: float = 10.0) -> None:
        self.percent = percent
        self.begun = threading.Event()
        self.given_up = threading.Event()
        self._over = threading.Event()
        self._error: RuntimeFault | None = None

    def __iter__(self) -> Iterator[FetchProgress]:
        self.begun.set()
        try:
            while not self._over.wait(0.05):
                yield FetchProgress(self.percent, "layers")
        except GeneratorExit:
            self.given_up.set()
            raise
        if self._error is not None:
            raise self._error

    def end(self, error: RuntimeFault | None = None) -> None:
        self._error = error
        self._over.set()


class FakeCluster:
    """`with FakeCluster(tmp_path) as c:` checks at its end that no GPU was given twice and no task started twice."""

    def __init__(
        self,
        directory: Path,
        gpus: int = 4,
        runtime: FakeRuntime | None = None,
        others: dict[str, FakeRuntime] | None = None,
        probe: FakeProbe | None = None,
        other_probes: dict[str, FakeProbe] | None = None,
        settings: ClusterSettings = ClusterSettings(),
    ) -> None:
        """`others`: runtimes of hosts that may be added by `add`. `probe` has real GPUs in place of simulated ones."""
        self.probe = probe
        self.other_probes = other_probes
        self.settings = settings
        self.directory = directory
        self.gpus = gpus
        self.runtime = runtime or FakeRuntime("local")
        self.others = others or {}
        self.cluster: Cluster

    def __enter__(self) -> FakeCluster:
        rows = [FoundGpu(f"GPU-{i}", i, "simulated", 1 << 34, simulated=True) for i in range(self.gpus)]
        self.cluster = Cluster(
            self.directory,
            self.settings,
            make_host=lambda *_: EmbeddedHost("local", "fake", "fake", self.runtime, rows, probe=self.probe),
            make_runtime=lambda row: self.others[row.id],
            make_probe=self._probe_of if self.other_probes is not None else None,
            features=[SweepWorker],
        )
        self.cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()
        for runtime in (self.runtime, *self.others.values()):
            runtime.check()

    def _probe_of(self, row: Any, fetch: object) -> FakeProbe:
        assert self.other_probes is not None
        return self.other_probes[row.id]

    def add(self, *host_ids: str, gpus: int | None = 4) -> None:
        """Adds hosts of `others` and waits until they can be used. With `gpus` None their probes find real ones."""
        for host_id in host_ids:
            address = f"tcp://{host_id}.lab:2375"
            self.cluster.fleet.add(HostSpec(address=address, name=host_id, simulate_gpus=gpus))
        wait_for(
            lambda: all(self.cluster.agents[h].status.observation for h in host_ids), what=f"contact to {host_ids}"
        )

    def gpu(self, uuid: str) -> Any:
        """Its row; None if there is none."""
        with self.cluster.db.read() as db:
            return db.execute(select(Gpu).where(col(Gpu.uuid) == uuid)).one_or_none()

    def poke(self) -> bool:
        """Has every host observed and the loop take a turn: for conditions that only time makes true."""
        for agent in self.cluster.agents.values():
            agent.poke()
        self.cluster.loop.wake()
        return True

    def whole_turn(self) -> None:
        """Waits for a turn of the loop that begins from now on, to its end: the next end may be of one that runs."""
        for _ in range(2):
            last = self.cluster.loop._turned_at
            wait_for(lambda last=last: self.poke() and self.cluster.loop._turned_at != last, what="a turn")

    def submit(self, *specs: JobSpec, key: str | None = None) -> list[str]:
        rows = self.cluster.service.submit(specs or [spec()], key).result(timeout=5)
        return [row["id"] for row in rows]

    def train(self, job_id: str, **said: Any) -> None:
        """What the first worker of a job that is resized in place says once all have joined it."""
        job = self.job(job_id)
        body = {
            "attempt": max(1, job.attempt), "member": 0, "leads": True, "trained": job.generation, "forming": False,
            "known": job.generation, "hold": 0.0,
        }  # fmt: skip
        heard = MembershipIn.model_validate({**body, **said})
        self.cluster.db.write(lambda db: record_report(db, job_id, heard, time.time()))
        self.cluster.loop.wake()

    def job(self, job_id: str) -> Any:
        with self.cluster.db.read() as db:
            return repository.get_job(db, job_id)

    def state(self, job_id: str) -> str:
        return str(self.job(job_id).state)

    def task(self, job_id: str, attempt: int = 1) -> str:
        return f"schedulearn-{job_id}-{attempt}-0"

    def wait(self, job_id: str, *states: str) -> Any:
        wait_for(lambda: self.state(job_id) in states, what=f"{job_id} to be {states}: {self.job(job_id)}")
        return self.job(job_id)

    def leases(self) -> list[Any]:
        with self.cluster.db.read() as db:
            return list(db.execute(select(Lease)))

    def events(self, job_id: str) -> list[str]:
        with self.cluster.db.read() as db:
            return [event.kind for event in repository.list_events(db, job_id=job_id)]
