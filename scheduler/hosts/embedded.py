"""Embedded host: the machine that the service runs on."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedulearn.scheduler.core.host_facts import FoundGpu
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.contract import Runtime
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.telemetry.probes import LocalProbe, Probe

log = logging.getLogger(__name__)

HOST_ID = "local"
SIMULATED_GPUS = 4
SIMULATED_TYPE = "simulated"


@dataclass(frozen=True)
class EmbeddedHost:
    """Host that is ready to be scheduled on."""

    id: str
    address: str
    runtime_name: str
    runtime: Runtime
    gpus: Sequence[FoundGpu]
    utilization: Callable[[str], float | None] = lambda uuid: None
    """Utilization by UUID, for GPUs that no probe watches."""
    probe: Probe | None = None
    """Probe that finds and watches the GPUs, instead of `gpus`."""
    unknown: str = ""
    """Reason why the GPUs can't be listed; empty: they can."""

    @property
    def simulated_gpus(self) -> int:
        return sum(gpu.simulated for gpu in self.gpus)


@dataclass(frozen=True)
class Before:
    """Embedded host as the previous run of the service stored it in the database."""

    runtime: str = ""
    """Name of its runtime; empty: the host is new."""
    real_gpus: bool = False


def embedded_host(
    data_dir: Path, cluster_id: str, settings: ClusterSettings, before: Before = Before()
) -> EmbeddedHost:
    """Choose the runtime and the GPUs of the embedded host.

    The runtime is Docker Engine if one answers, else local processes. GPUs are real by default. They are simulated on
    request, or if there is no NVIDIA driver and never was a real GPU. A host that had an engine, or GPUs, keeps them
    while they don't answer.

    Raises RuntimeFault if the setting `runtime` is "docker" and no engine answers.
    """
    name, address, engine = _runtime(data_dir, cluster_id, settings, before.runtime)

    def host(gpus: Sequence[FoundGpu], probe: Probe | None = None, unknown: str = "") -> EmbeddedHost:
        return EmbeddedHost(HOST_ID, address, name, engine, gpus, probe=probe, unknown=unknown)

    if settings.simulate_gpus is not None:
        return host(simulated_gpus(cluster_id, HOST_ID, settings.simulate_gpus))
    from schedulearn.metrics.probe import nvml

    found = nvml.find_gpus()
    if found.gpus:
        return host([], LocalProbe())
    if name == "docker" and _gives_gpus(engine, before):
        # This process can't see the GPUs, for instance in a container. A probe of the engine can.
        from schedulearn.scheduler.runtimes.docker.probe import ContainerProbe

        return host([], ContainerProbe(address, cluster_id, engine.images.fetch))
    if nvml.has_driver() or before.real_gpus:
        log.warning("%s has no GPUs: %s", HOST_ID, found.problem or "its driver lists none")
        return host([], LocalProbe(), found.problem)
    log.info("%s has no NVIDIA driver: simulating %d GPUs; jobs on them have no real GPU", HOST_ID, SIMULATED_GPUS)
    return host(simulated_gpus(cluster_id, HOST_ID, SIMULATED_GPUS))


def _runtime(data_dir: Path, cluster_id: str, settings: ClusterSettings, before: str) -> tuple[str, str, Runtime]:
    if settings.runtime != "process":
        from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime, ping

        url = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        why = ping(url)
        if why is not None and settings.runtime == "auto" and before == "docker":
            log.warning("%s runs jobs in Docker, but no engine answers at %s: %s. Waiting for it.", HOST_ID, url, why)
            why = None
        if why is None:
            return "docker", url, DockerRuntime(HOST_ID, url, data_dir, cluster_id)
        if settings.runtime == "docker":
            raise RuntimeFault(
                f"no Docker Engine answers at {url}: {why}. Start Docker, set DOCKER_HOST, or use --runtime process."
            )
    from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime

    return "process", "local processes", ProcessRuntime(HOST_ID, data_dir, settings.environments)


def _gives_gpus(engine: Runtime, before: Before) -> bool:
    try:
        return engine.survey().nvidia
    except RuntimeFault:
        return before.real_gpus or not before.runtime  # unknown: as before; for a new host the probe finds out


def simulated_gpus(cluster_id: str, host_id: str, count: int) -> list[FoundGpu]:
    """Return simulated GPUs, the same ones for the same arguments."""
    names = (uuid.uuid5(uuid.NAMESPACE_OID, f"{cluster_id}/{host_id}/{index}") for index in range(count))
    return [
        FoundGpu(f"GPU-{name}", index, SIMULATED_TYPE, 16 << 30, simulated=True) for index, name in enumerate(names)
    ]
