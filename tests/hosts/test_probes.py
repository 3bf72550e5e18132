"""Probes on hosts reached by ssh and by TLS: made there, followed, and found again after the cable was cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import wait_for
from engines import Lab
from gpu_probes.probe_images import ENVIRONMENT, image_with_gpus

from schedulearn.metrics.probe.readings import Inventory, Reading, Sample
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.probe import ContainerProbe

pytestmark = [pytest.mark.long, pytest.mark.docker]


def no_fetch(image: str) -> Iterator[Any]:
    raise ImageUnavailable(image)


class Reader(threading.Thread):
    """Reads a probe as the service does."""

    def __init__(self, probe: ContainerProbe) -> None:
        super().__init__(daemon=True)
        self.probe = probe
        self.seen: list[Reading] = []
        self.last = 0.0
        self.stopping = False
        self.start()

    def run(self) -> None:
        while not self.stopping:
            try:
                for reading in self.probe.readings():
                    self.seen.append(reading)
                    self.last = time.monotonic()
            except RuntimeFault:
                pass
            time.sleep(0.2)

    def fresh(self) -> bool:
        return time.monotonic() - self.last < 3 and isinstance(self.seen[-1], Sample)


@pytest.mark.parametrize("name", ["h1", "h2"])
def test_a_probe_runs_on_a_remote_host_and_survives_its_cable(
    hosts: Lab, docker_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for key, value in hosts.environment.items():
        monkeypatch.setenv(key, value)
    source = Engine(docker_url)
    image = image_with_gpus(source, tmp_path)
    source.close()
    hosts.load(image, docker_url, name)
    host, tls = hosts.hosts[name], hosts.spec(name).get("tls")
    probe = ContainerProbe(
        hosts.address(name), "lab0123456789", no_fetch, tls=Path(str(tls)) if tls else None, image=image,
        gpu_options=lambda info: {}, environment=ENVIRONMENT,
    )  # fmt: skip
    reader = Reader(probe)
    try:
        wait_for(lambda: reader.seen and reader.fresh(), seconds=30, what="readings")
        assert isinstance(reader.seen[0], Inventory)
        assert len(reader.seen[0].gpus) == 8
        before = host.docker("ps", "-q").split()
        host.cut()
        wait_for(lambda: not reader.fresh(), seconds=20, what="silence")
        probe.interrupt()
        time.sleep(1)
        host.mend()
        wait_for(reader.fresh, seconds=90, what="readings again")
        assert host.docker("ps", "-q").split() == before
    finally:
        reader.stopping = True
        probe.close(remove=True)
        reader.join(timeout=20)
    assert not reader.is_alive()
    assert host.containers() == []
