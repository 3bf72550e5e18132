"""Probe in a container on a Docker host.

The container is created, and its log is followed. It is created again if it ends or has another version. Its name is
the same for every version, so that an engine can't have two probes of one service.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker.errors
from docker.types import DeviceRequest, LogConfig

from schedulearn.metrics.probe.readings import MAX_LINE, Inventory, Reading, from_line
from schedulearn.metrics.probe.sampling import VERSION_VARIABLE
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.contract import FetchProgress
from schedulearn.scheduler.runtimes.docker.api import Engine, Frame, Stream, explain, status_of
from schedulearn.scheduler.runtimes.docker.container import LABEL, cdi_devices
from schedulearn.scheduler.runtimes.docker.gpu_reset import reset_there
from schedulearn.scheduler.runtimes.docker.images import DockerImages
from schedulearn.scheduler.runtimes.docker.probe_image import probe_image, probe_version

log = logging.getLogger(__name__)

LABEL_PROBE = "schedulearn.probe"
"""Label of the probe's container; its value is the version."""
LABEL_BLIND = "schedulearn.probe.blind"
"""Label of a probe's container without GPUs."""
AGAIN_S = 600.0
"""Interval of checks whether an engine gives GPUs to containers."""
_RECENT = 130  # lines, enough for an inventory: there is one per minute
_MEMORY = 256 << 20


def container_name(cluster_id: str) -> str:
    return f"schedulearn-probe-{cluster_id[:12]}"


class ContainerProbe:
    """`Probe` of a Docker host.

    `fetch` pulls or builds an image there. `url` and `tls` are those of docker_api.Engine. The constructor opens no
    connection."""

    def __init__(
        self,
        url: str | None,
        cluster_id: str,
        fetch: Callable[[str], Iterator[FetchProgress]],
        *,
        tls: Path | None = None,
        image: str | None = None,
        gpu_options: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        environment: Mapping[str, str] | None = None,
        sees_gpus: bool = True,
    ) -> None:
        """Without `sees_gpus`, or if the engine gives no GPUs, the probe reports only the machine.

        `image`, `gpu_options` (engine's info -> container options for all GPUs) and `environment` are for tests."""
        self._engine = Engine(url, tls)
        self._cluster_id = cluster_id
        self._name = container_name(cluster_id)
        self._fetch = fetch
        self._image = image
        self._gpu_options = gpu_options or all_gpus
        self._environment = environment or {}
        self._sees_gpus = sees_gpus
        self._blind: str | None = None
        """Reason why the container has no GPUs. Empty if it should have none; None if it has GPUs."""
        self._closed = threading.Event()
        self._stream: Stream | None = None
        self._renew = False
        self._cut = False
        """True if we end the stream ourselves, so that its errors don't count."""

    def readings(self) -> Iterator[Reading]:
        if self._closed.is_set():
            return
        self._cut = False
        try:
            yield from self._readings()
        except RuntimeFault:
            if not self._cut:
                raise

    def _readings(self) -> Iterator[Reading]:
        with self._engine.errors("run the probe"):
            container = self._ensure()
            began = time.monotonic()
            shown = self._recent(container)
            if shown is not None:
                yield shown
            words = b""
            for stream, line in self._lines(container, follow=True, tail="all" if shown is None else "0"):
                if self._closed.is_set():
                    return
                if stream == 2:
                    words = line
                elif (reading := self._parse(line)) is not None:
                    yield reading
                if self._blind and time.monotonic() - began > AGAIN_S:
                    return
            ended = self._has_ended()
        if ended and words and not self._cut:
            raise RuntimeFault(f"the probe on {self._engine.url} ended: {words.decode(errors='replace')}")

    def interrupt(self, *, renew: bool = False) -> None:
        self._renew = self._renew or renew
        self._cut = True
        stream = self._stream
        if stream is not None:
            stream.cancel()

    def reset(self, uuid: str) -> None:
        with self._engine.errors("reset a GPU"):
            self._remove()
            api = self._engine.api
            image, labels = self._image or probe_image(), {LABEL: self._cluster_id}
            reset_there(api, image, f"{self._name}-reset", labels, self._gpu_options(api.info()), uuid)

    def close(self, *, remove: bool = False) -> None:
        self._closed.set()
        self.interrupt()
        if remove:
            with suppress(RuntimeFault), self._engine.errors("remove the probe"):
                self._remove()
        self._engine.close()

    def _ensure(self) -> str:
        """Return the id of a running container of this version; create it if necessary."""
        found = self._inspect()
        if found is not None:
            labels = found["Config"].get("Labels") or {}
            same = labels.get(LABEL_PROBE) == probe_version() and (LABEL_BLIND in labels) is not self._sees_gpus
            if found["State"]["Running"] and same and not self._renew:
                self._blind = None if self._sees_gpus else ""
                return str(found["Id"])
            self._remove()
        self._renew = False
        image = self._image or probe_image()
        if not DockerImages(self._engine).has(image):
            for _ in self._fetch(image):
                if self._closed.is_set():
                    raise RuntimeFault("the service is stopping")
        self._blind = None if self._sees_gpus else ""
        try:
            return self._start(image)
        except docker.errors.APIError as error:
            if "could not select device driver" not in explain(error):
                raise
            self._blind = (
                "its Docker gives no GPUs to containers: install the NVIDIA container toolkit there, or set "
                "simulate_gpus: 0 if it has no GPUs"
            )
            return self._start(image)

    def _start(self, image: str) -> str:
        api = self._engine.api
        try:
            container = str(api.create_container(**self._arguments(image))["Id"])
            api.start(container)
        except docker.errors.APIError as error:
            if status_of(error) == 409:
                raise RuntimeFault(
                    f"a container {self._name} already exists on {self._engine.url}: trying again; if this persists, "
                    f"run `docker rm -f {self._name}` there"
                ) from error
            self._remove()
            raise
        return container

    def _arguments(self, image: str) -> dict[str, Any]:
        api = self._engine.api
        host = api.create_host_config(
            init=True,
            pid_mode="host",  # NVML counts processes as the host does
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            mem_limit=_MEMORY,
            pids_limit=64,
            log_config=LogConfig(type="local", config={"max-size": "1m", "max-file": "2", "compress": "false"}),
            restart_policy={"Name": "no"},  # the service restarts it
            **(self._gpu_options(api.info()) if self._blind is None else {}),
        )
        return {
            "image": image,
            "name": self._name,
            "environment": {
                "NVIDIA_VISIBLE_DEVICES": "all" if self._blind is None else "void",
                "NVIDIA_DRIVER_CAPABILITIES": "utility",
                VERSION_VARIABLE: probe_version(),
                **self._environment,
            },
            "labels": {
                LABEL: self._cluster_id,
                LABEL_PROBE: probe_version(),
                **({} if self._blind is None else {LABEL_BLIND: "true"}),
            },
            "host_config": host,
        }

    def _inspect(self) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self._engine.api.inspect_container(self._name)
        except docker.errors.NotFound:
            return None
        return found

    def _has_ended(self) -> bool:
        """Whether the container has ended. Waits a little, because its log may end earlier than the engine reports."""
        for _ in range(10):
            found = self._inspect()
            if found is None or not found["State"]["Running"]:
                return True
            if self._closed.wait(0.1):
                break
        return False

    def _remove(self) -> None:
        try:
            self._engine.api.remove_container(self._name, v=True, force=True)
        except docker.errors.APIError as error:
            if status_of(error) not in (404, 409):  # it is gone, or being removed
                raise

    def _recent(self, container: str) -> Inventory | None:
        """Return the last inventory in the container's log; None if it has just started."""
        shown = None
        for stream, line in self._lines(container, follow=False, tail=str(_RECENT)):
            reading = self._parse(line) if stream == 1 else None
            if isinstance(reading, Inventory):
                shown = reading
        return shown

    def _lines(self, container: str, *, follow: bool, tail: str) -> Iterator[tuple[int, bytes]]:
        parameters = {"stdout": 1, "stderr": 1, "follow": int(follow), "tail": tail}
        with self._engine.stream("GET", f"/containers/{container}/logs", params=parameters) as stream:
            self._stream = stream
            try:
                yield from split_lines(stream.frames())
            finally:
                self._stream = None

    def _parse(self, line: bytes) -> Reading | None:
        try:
            return self._as_given(from_line(line))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            log.warning("invalid output of the probe on %s: %r: %s", self._engine.url, line[:100], error)
            return None

    def _as_given(self, reading: Reading) -> Reading:
        if self._blind is None:
            return reading
        if isinstance(reading, Inventory):
            return Inventory(reading.version, problem=self._blind)
        return replace(reading, gpus=())


def all_gpus(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container options that give access to all GPUs. `info` is the engine's answer to `info`.

    Unlike for jobs, the nvidia runtime is preferred to a device request: a probe that loses its GPUs is created again.
    """
    if "nvidia.com/gpu=all" in cdi_devices(info):
        return {"device_requests": [DeviceRequest(driver="cdi", device_ids=["nvidia.com/gpu=all"])]}
    if "nvidia" in (info.get("Runtimes") or {}):
        return {"runtime": "nvidia"}
    return {"device_requests": [DeviceRequest(count=-1, capabilities=[["gpu", "utility"]])]}


def split_lines(frames: Iterator[Frame]) -> Iterator[tuple[int, bytes]]:
    """Yield (stream, line) from an engine's frames; a long line spans several. Lines without an end are dropped."""
    rests: dict[int, bytes] = {}
    for stream, payload in frames:
        *lines, rest = (rests.get(stream, b"") + payload).split(b"\n")
        rests[stream] = rest[-MAX_LINE:]
        for line in lines:
            if line.strip():
                yield stream, line
