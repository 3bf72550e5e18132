"""100 hosts of 8 GPUs with 1,000 jobs: a turn takes at most 1 s, an idle service 5 % of a core; one dead host of 20.

The hosts are runtimes in memory, in the service's own process; database, agents, loop and policy are the real ones.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from pathlib import Path

from fakes.runtime import FakeRuntime

from bench.measured_service import JOB, verdict
from schedulearn.features import load_tables
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.core.host_facts import HostFacts
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.hosts.embedded import EmbeddedHost
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store import repository

load_tables()

IDLE_S = 20.0
STARTS = 40


def main() -> bool:
    return all([_large(), _black_hole()])


class _Hosts:
    """A cluster over so many hosts in memory."""

    def __init__(self, folder: str, count: int, gpus: int) -> None:
        self.runtimes = {f"h{index:03}": FakeRuntime(f"h{index:03}") for index in range(count)}
        specs = [HostSpec(address=f"tcp://{name}.lab:2375", name=name, simulate_gpus=gpus) for name in self.runtimes]
        self.cluster = Cluster(
            Path(folder),
            ClusterSettings(hosts=specs),
            make_host=lambda *_: EmbeddedHost("local", "fake", "fake", FakeRuntime("local"), []),
            make_runtime=lambda row: self.runtimes[row.id],
        )

    def start(self, but: str = "") -> None:
        self.cluster.start()
        while not all(a.status.observation for name, a in self.cluster.agents.items() if name != but):
            time.sleep(0.01)

    def count(self, state: str) -> int:
        with self.cluster.db.read() as db:
            return repository.count_jobs(db)[state]


def _large() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        hosts = _Hosts(folder, 100, 8)
        turns: list[float] = []
        turn = hosts.cluster.loop.turn

        def timed() -> None:
            began = time.perf_counter()
            turn()
            turns.append(time.perf_counter() - began)

        hosts.cluster.loop.turn = timed  # type: ignore[method-assign]
        hosts.start()
        hosts.cluster.service.submit([JobSpec(**JOB)] * 1000).result()
        while hosts.count("running") < 800:
            time.sleep(0.1)
        time.sleep(3)  # let what follows from it settle
        longest = max(turns)
        idle = len(turns)
        began, used = time.perf_counter(), time.process_time()
        time.sleep(IDLE_S)
        share = 100 * (time.process_time() - used) / (time.perf_counter() - began)
        print(f"  {idle} turns until 800 of 1,000 jobs ran on 100 hosts; {len(turns) - idle} while idle")
        hosts.cluster.close()
    return all(
        [
            verdict("longest turn, 100 hosts x 8 GPUs, 1,000 jobs", f"{longest:.2f} s", "<= 1 s", longest <= 1),
            verdict("idle processor share", f"{share:.1f} %", "<= 5 %", share <= 5),
        ]
    )


def _black_hole() -> bool:
    """Start latency on 19 hosts, without and with a twentieth whose every call hangs."""
    medians = []
    for dead in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            hosts = _Hosts(folder, 20, 1)
            hole = hosts.runtimes["h019"]
            release = threading.Event()
            if dead:

                def hang(release: threading.Event = release) -> HostFacts:
                    release.wait(600)
                    raise RuntimeFault("h019 does not answer")

                hole.survey = hang  # type: ignore[method-assign]
            else:
                hosts.cluster.fleet.set_state("h019", "cordoned")
            hosts.start("h019" if dead else "")
            took = []
            for _ in range(STARTS):
                began = time.perf_counter()
                [row] = hosts.cluster.service.submit([JobSpec(**JOB)]).result()
                while not (
                    home := [r for r in hosts.runtimes.values() if any(row["id"] in t.task_id for t in r.tasks())]
                ):
                    time.sleep(0.001)
                took.append(time.perf_counter() - began)
                home[0].finish(f"schedulearn-{row['id']}-1-0")
                while hosts.count("succeeded") < len(took):
                    time.sleep(0.005)
            medians.append(statistics.median(took))
            release.set()
            hosts.cluster.close()
    ratio = medians[1] / medians[0]
    print(f"  submission to start: {medians[0] * 1e3:.0f} ms, with a dead host {medians[1] * 1e3:.0f} ms")
    return verdict("start latency beside a dead host over without", f"{ratio:.2f} x", "<= 1.25 x", ratio <= 1.25)
