"""Factory of runtimes and probes for remote hosts with Docker Engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schedulearn.scheduler.runtimes.contract import Runtime
from schedulearn.scheduler.telemetry.probes import Probe

if TYPE_CHECKING:
    from schedulearn.scheduler.hosts.agent import ImageSource
    from schedulearn.scheduler.hosts.fleet import RemoteHost


@dataclass(frozen=True)
class DockerHosts:
    """Factory of runtimes and probes for one service.

    The runtimes and probes that it returns have not connected yet."""

    data_dir: Path
    cluster_id: str

    def runtime(self, host: RemoteHost) -> Runtime:
        from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime  # slow, and not always needed

        return DockerRuntime(host.id, host.address, self.data_dir, self.cluster_id, tls=host.tls)

    def probe(self, host: RemoteHost, fetch: ImageSource) -> Probe:
        from schedulearn.scheduler.runtimes.docker.probe import ContainerProbe

        return ContainerProbe(host.address, self.cluster_id, fetch, tls=host.tls, sees_gpus=host.simulated_gpus is None)
