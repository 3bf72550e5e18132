"""Readings of 100 hosts of 8 GPUs, one a second: they cost an idle service at most 5 % of a core.

The probes are one process with a pipe a host: each has its thread here and its lines of JSON to be read, as a
container's log has.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from fakes.runtime import FakeRuntime
from sqlalchemy import func, select

from bench.measured_service import verdict
from schedulearn.features import load_tables
from schedulearn.metrics.probe.readings import (
    GpuInfo,
    GpuProcess,
    GpuReading,
    Inventory,
    Reading,
    Sample,
    from_line,
    to_line,
)
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.hosts.embedded import EmbeddedHost
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.specs.host import HostSpec
from schedulearn.scheduler.store.models import GpuMinute

load_tables()

HOSTS, GPUS = 100, 8
SECONDS = 125.0  # with two ends of minutes in it


class _LineProbe:
    """Reads what `_write` says on a pipe, line by line."""

    def __init__(self, pipe: int) -> None:
        self._lines = os.fdopen(pipe, "rb")

    def readings(self) -> Iterator[Reading]:
        yield from map(from_line, self._lines)

    def interrupt(self, *, renew: bool = False) -> None:
        pass

    def close(self, *, remove: bool = False) -> None:
        pass  # the writer's end ends it


def _write(pipes: Mapping[str, int]) -> None:
    """In a process of its own, as probes are: an inventory of each host, then a sample a second, one host after the
    other. Until it is killed."""
    samples = {}
    for name, pipe in pipes.items():
        gpus = [GpuInfo(f"GPU-{name}-{index}-0000-000000000000", index, "A100", 80 << 30) for index in range(GPUS)]
        os.write(pipe, to_line(Inventory("bench", "550.1", tuple(gpus))).encode() + b"\n")
        readings = [
            GpuReading(
                gpu.uuid, 87.0, 5e10, 61.0, 287.5, 1.5e9, 1410.0, 1593.0, 0, throttle=("power_cap",),
                processes=(GpuProcess(1234, "python", 5 << 34, "c" * 64, "", 0),),
            )
            for gpu in gpus
        ]  # fmt: skip
        samples[pipe] = to_line(Sample(time.time(), tuple(readings))).encode() + b"\n"
    due = time.monotonic()
    while True:
        for pipe, line in samples.items():
            due += 1 / len(samples)
            time.sleep(max(0.0, due - time.monotonic()))
            os.write(pipe, line)


def main() -> bool:
    names = [f"h{index:03}" for index in range(HOSTS)]
    pipes = {name: os.pipe() for name in names}
    writer = multiprocessing.get_context("fork").Process(
        target=_write, args=({name: end for name, (_, end) in pipes.items()},), daemon=True
    )
    writer.start()
    for _, end in pipes.values():
        os.close(end)
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(
            Path(folder),
            ClusterSettings(hosts=[HostSpec(address=f"tcp://{name}.lab:2375", name=name) for name in names]),
            make_host=lambda *_: EmbeddedHost("local", "fake", "fake", FakeRuntime("local"), []),
            make_runtime=lambda row: FakeRuntime(row.id),
            make_probe=lambda row, fetch: _LineProbe(pipes[row.id][0]),
        )
        cluster.start()
        while not all(cluster.monitor.telemetry.heard_at(name) for name in names):
            time.sleep(0.1)
        time.sleep(3)
        began, used = time.perf_counter(), time.process_time()
        time.sleep(SECONDS)
        share = 100 * (time.process_time() - used) / (time.perf_counter() - began)
        uuid = f"GPU-{names[0]}-0-0000-000000000000"
        kept = len(cluster.monitor.telemetry.points(uuid, time.time() - 60, time.time()))
        with cluster.db.read() as db:
            rows = db.execute(select(func.count()).select_from(GpuMinute)).scalar() or 0
            minutes = len(db.execute(select(GpuMinute.minute).distinct()).all())
        writer.kill()
        cluster.close()
    print(f"  {rows} averages of {minutes} minutes were stored")
    return all(
        [
            verdict(f"processor share, {HOSTS} hosts x {GPUS} GPUs at 1 Hz", f"{share:.1f} %", "<= 5 %", share <= 5),
            verdict("readings of a GPU in the last minute", str(kept), ">= 57", kept >= 57),
            verdict(
                "averages a minute", f"{rows / max(1, minutes):.0f}", f"{HOSTS * GPUS}", rows == HOSTS * GPUS * minutes
            ),
        ]
    )
