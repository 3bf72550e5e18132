"""How further hosts are talked to: by the Docker Engine at their address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from schedulearn.scheduler.runtimes.contract import Runtime
from schedulearn.scheduler.telemetry.probes import Probe

if TYPE_CHECKING:
    from schedulearn.scheduler.hosts.fleet import FetchImage
    from schedulearn.scheduler.store.hosts import HostRow


@dataclass(frozen=True)
class DockerHosts:
    """Makes runtimes and probes of one service; they connect to nothing yet."""

    data_dir: Path
    cluster_id: str

    def runtime(self, host: HostRow) -> Runtime:
        from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime  # not free, and not always needed

        return DockerRuntime(host.id, host.address, self.data_dir, self.cluster_id, tls=_certificates(host))

    def probe(self, host: HostRow, fetch: FetchImage) -> Probe:
        from schedulearn.scheduler.runtimes.docker.probe import ContainerProbe

        return ContainerProbe(host.address, self.cluster_id, fetch, tls=_certificates(host))


def _certificates(host: HostRow) -> Path | None:
    return Path(host.tls) if host.tls else None
