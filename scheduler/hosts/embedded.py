"""The embedded host: the machine that the service runs on, with whatever is there."""

from __future__ import annotations

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

HOST_ID = "local"
SIMULATED_GPUS = 4
SIMULATED_TYPE = "simulated"


@dataclass(frozen=True)
class EmbeddedHost:
    """A host ready to be scheduled on."""

    id: str
    address: str
    runtime_name: str
    runtime: Runtime
    gpus: Sequence[FoundGpu]
    utilization: Callable[[str], float | None] = lambda uuid: None
    """For GPUs that no probe watches."""
    probe: Probe | None = None
    """Finds and watches the GPUs, in place of `gpus`."""


def embedded_host(data_dir: Path, cluster_id: str, settings: ClusterSettings) -> EmbeddedHost:
    """Docker Engine where one answers, else local processes; real GPUs where NVML shows some, else simulated ones.

    Raises RuntimeFault if the setting `runtime` is "docker" and no engine answers.
    """
    name, address, engine = _runtime(data_dir, cluster_id, settings)
    gpus, probe = _gpus(cluster_id, settings.simulate_gpus)
    if settings.simulate_gpus is None and probe is None and name == "docker" and _gives_gpus(engine):
        # We can't see them ourselves, for instance in a container: a probe of their engine can.
        from schedulearn.scheduler.runtimes.docker.probe import ContainerProbe

        gpus, probe = [], ContainerProbe(address, cluster_id, engine.images.fetch)
    return EmbeddedHost(HOST_ID, address, name, engine, gpus, probe=probe)


def _runtime(data_dir: Path, cluster_id: str, settings: ClusterSettings) -> tuple[str, str, Runtime]:
    if settings.runtime != "process":
        from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime, ping

        url = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        why = ping(url)
        if why is None:
            return "docker", url, DockerRuntime(HOST_ID, url, data_dir, cluster_id)
        if settings.runtime == "docker":
            raise RuntimeFault(
                f"no Docker Engine answers at {url}: {why}. Start Docker, set DOCKER_HOST, or use --runtime process."
            )
    from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime

    return "process", "local processes", ProcessRuntime(HOST_ID, data_dir, settings.environments)


def _gives_gpus(engine: Runtime) -> bool:
    try:
        return engine.survey().nvidia
    except RuntimeFault:
        return False


def _gpus(cluster_id: str, simulate: int | None) -> tuple[Sequence[FoundGpu], Probe | None]:
    if simulate is None:
        from schedulearn.metrics.probe import nvml

        found = nvml.list_gpus()
        if found:
            return [FoundGpu(gpu.uuid, gpu.index, gpu.type, gpu.memory_bytes) for gpu in found], LocalProbe()
    return simulated_gpus(cluster_id, HOST_ID, SIMULATED_GPUS if simulate is None else simulate), None


def simulated_gpus(cluster_id: str, host_id: str, count: int) -> list[FoundGpu]:
    """The same ones each time."""
    names = (uuid.uuid5(uuid.NAMESPACE_OID, f"{cluster_id}/{host_id}/{index}") for index in range(count))
    return [
        FoundGpu(f"GPU-{name}", index, SIMULATED_TYPE, 16 << 30, simulated=True) for index, name in enumerate(names)
    ]
