"""Endpoints for hosts, GPUs, policies, and the service itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from schedulearn.api.client.asked.base import Asked, J, L, N, T
from schedulearn.api.client.transport import part

RESET_S = 180.0
"""Timeout of a GPU reset: the service gives `nvidia-smi` two minutes."""


class ClusterCalls(Asked[J, L, N, T]):
    """Part of both clients."""

    def health(self) -> J:
        return self._object("GET", "/healthz")

    def hosts(self) -> L:
        return self._list("GET", "hosts")

    def host(self, host_id: str) -> J:
        return self._object("GET", f"hosts/{part(host_id)}")

    def cordon(self, host_id: str) -> J:
        return self._object("POST", f"hosts/{part(host_id)}/cordon")

    def uncordon(self, host_id: str) -> J:
        return self._object("POST", f"hosts/{part(host_id)}/uncordon")

    def cordon_gpu(self, host_id: str, gpu: str) -> J:
        """Cordon a GPU, by index or UUID: no new jobs start on it."""
        return self._object("POST", f"hosts/{part(host_id)}/gpus/{part(gpu)}/cordon")

    def drain_gpu(self, host_id: str, gpu: str, deadline_s: float) -> J:
        return self._object("POST", f"hosts/{part(host_id)}/gpus/{part(gpu)}/drain", json={"deadline_s": deadline_s})

    def reset_gpu(self, host_id: str, gpu: str) -> J:
        """Reset an idle GPU, by index or UUID, and wait for it."""
        return self._object("POST", f"hosts/{part(host_id)}/gpus/{part(gpu)}/reset", timeout=RESET_S)

    def return_gpu(self, host_id: str, gpu: str) -> J:
        """Return a cordoned or unhealthy GPU, by index or UUID, to service."""
        return self._object("POST", f"hosts/{part(host_id)}/gpus/{part(gpu)}/return")

    def data_sets(self) -> L:
        """Return the operator's folders that jobs may name in `mounts`."""
        return self._list("GET", "data-sets")

    def disk(self, host_id: str) -> J:
        """Return what uses disk space on a host."""
        return self._object("GET", f"hosts/{part(host_id)}/disk")

    def fetch_image(self, host_id: str, image: str) -> N:
        """Start to fetch an image on a host."""
        return self._nothing("POST", f"hosts/{part(host_id)}/images", json={"image": image})

    def add_host(self, spec: Mapping[str, Any]) -> J:
        return self._object("POST", "hosts", json=dict(spec))

    def remove_host(self, host_id: str, *, force: bool = False) -> N:
        return self._nothing("DELETE", f"hosts/{part(host_id)}", params={"force": force})

    def drain(self, host_id: str, deadline_s: float) -> J:
        return self._object("POST", f"hosts/{part(host_id)}/drain", json={"deadline_s": deadline_s})

    def gpus(self) -> L:
        return self._list("GET", "gpus")

    def cluster(self) -> J:
        """Return totals, and the cluster's utility."""
        return self._object("GET", "cluster")

    def policy(self) -> J:
        return self._object("GET", "policy")

    def set_policy(self, algorithm: str, metric: str = "default", params: Mapping[str, Any] | None = None) -> J:
        body = {"algorithm": algorithm, "metric": metric, "params": dict(params or {})}
        return self._object("PUT", "policy", json=body)

    def expect(self, spec: Mapping[str, Any]) -> J:
        """Predict when such a job would start and end if it were submitted now. Stores nothing."""
        return self._object("POST", "jobs:preview", json=dict(spec))

    def preview(
        self, algorithm: str, metric: str = "default", params: Mapping[str, Any] | None = None, hours: int = 24
    ) -> J:
        """Predict what another policy would do now and within the next `hours`. Changes nothing."""
        query = {"algorithm": algorithm, "metric": metric, "params": json.dumps(dict(params or {})), "hours": hours}
        return self._object("GET", "policy/preview", params=query)

    def compare_policies(self, hours: int = 24) -> J:
        """Predict the results of every policy with the present jobs, within the next `hours`.

        Changes nothing."""
        return self._object("GET", "policy/comparison", params={"hours": hours})

    def metrics(self) -> T:
        """Return the metrics in Prometheus format."""
        return self._text("/metrics")
