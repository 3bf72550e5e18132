"""The volumes of each container: our SDK, filled once an engine, and the job's checkpoints and outputs, which outlive
attempts."""

from __future__ import annotations

import io
import tarfile
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import docker.errors
from docker.types import Mount

from schedulearn.scheduler.core.task import RunAs
from schedulearn.scheduler.runtimes.sdk import sdk_archive, sdk_digest

SDK_PATH = "/schedulearn/sdk"
SDK_VOLUMES = "schedulearn-sdk-"
"""Beginning of the names of such volumes: one for each version."""
CHECKPOINTS_PATH = "/schedulearn/checkpoints"
OUTPUTS_PATH = "/outputs"
_COMPLETE = "complete"  # the file that is written last


@dataclass(frozen=True)
class VolumeKind:
    """A volume that each job has."""

    name: str
    path: str
    """In the job's containers."""

    @property
    def label(self) -> str:
        """Its value is the job's id."""
        return f"schedulearn.{self.name}"

    def volume(self, job_id: str) -> str:
        return f"schedulearn-{self.name}-{job_id}"

    def mount(self, job_id: str, labels: Mapping[str, str]) -> Any:
        """The engine makes the volume with the first container that has it, without what that one's image has there:
        it may be anybody's."""
        labels = {**labels, self.label: job_id}
        return Mount(self.path, self.volume(job_id), type="volume", no_copy=True, labels=labels)


CHECKPOINTS = VolumeKind("checkpoints", CHECKPOINTS_PATH)
OUTPUTS = VolumeKind("outputs", OUTPUTS_PATH)
DATA = VolumeKind("data", "/data")
"""Shared by jobs: in place of a job's id it has the name of its content, and jobs say where it appears."""
PARTS = VolumeKind("data-parts", "/parts")
"""Beside one of `DATA` that is being filled: an empty file for each part that came whole. No job has it."""


def sdk_volume() -> str:
    return f"{SDK_VOLUMES}{sdk_digest()}"


def mounts(job_id: str, cluster_label: str, cluster_id: str) -> list[Any]:
    """For `create_host_config`."""
    labels = {cluster_label: cluster_id}
    return [
        Mount(SDK_PATH, sdk_volume(), type="volume", read_only=True, no_copy=True),
        CHECKPOINTS.mount(job_id, labels),
        OUTPUTS.mount(job_id, labels),
    ]


def data_sets(folders: Mapping[str, str], writable: Collection[str] = ()) -> list[Any]:
    """Path in the container -> folder of the host, which must be there: an engine refuses what is not. `writable`:
    those paths that are not read-only."""
    return [Mount(target, source, type="bind", read_only=target not in writable) for target, source in folders.items()]


def shared_data(volumes: Mapping[str, str]) -> list[Any]:
    """Path in the container -> volume with data that jobs share."""
    return [Mount(target, volume, type="volume", read_only=True, no_copy=True) for target, volume in volumes.items()]


class SdkVolume:
    """The volume with the SDK on one engine. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = False

    def ensure(self, api: Any, image: str) -> None:
        """Makes sure that it is there and complete. `image`: any that the engine has. Raises docker's APIError."""
        with self._lock:
            if self._known:
                try:
                    api.inspect_volume(sdk_volume())
                    return
                except docker.errors.NotFound:
                    self._known = False  # somebody pruned it
            # An engine looks into volumes only through containers; this one is never started.
            mount = Mount(SDK_PATH, sdk_volume(), type="volume", no_copy=True)
            helper = api.create_container(image, ["true"], host_config=api.create_host_config(mounts=[mount]))["Id"]
            try:
                if not self._is_complete(api, helper):
                    api.put_archive(helper, SDK_PATH, sdk_archive())
                    api.put_archive(helper, SDK_PATH, _archive(tarfile.TarInfo(_COMPLETE)))
            finally:
                with suppress(docker.errors.APIError):  # it keeps nobody from using the volume
                    api.remove_container(helper, force=True)
            self._known = True

    @staticmethod
    def _is_complete(api: Any, helper: str) -> bool:
        """Whether a service before us filled it, and was not killed while it did."""
        try:
            content, _ = api.get_archive(helper, f"{SDK_PATH}/{_COMPLETE}")
        except docker.errors.NotFound:
            return False
        content.close()
        return True


def open_to(api: Any, container: str, owner: RunAs | None, paths: Collection[str]) -> None:
    """Lets an account of the hosts, or else an image's own user, write these folders: new ones belong to root."""
    for path in map(PurePosixPath, paths):
        folder = tarfile.TarInfo(path.name)  # an engine leaves the folder as it is into which it unpacks
        folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, 0o1777, int(time.time())
        if owner is not None:
            folder.uid, folder.gid, folder.mode = owner.uid, owner.gid, 0o755
        api.put_archive(container, str(path.parent), _archive(folder))


class ImageSettings(NamedTuple):
    """Of an image; empty where it sets none."""

    id: str
    python_path: str
    places: tuple[str, ...]
    """Where engines make folders for it: its working directory and its volumes."""


def image_settings(inspected: Mapping[str, Any]) -> ImageSettings:
    config = inspected.get("Config") or {}
    env = dict(entry.partition("=")[::2] for entry in config.get("Env") or ())
    places = (str(config.get("WorkingDir") or "/"), *map(str, config.get("Volumes") or ()))
    return ImageSettings(str(inspected["Id"]), env.get("PYTHONPATH", ""), places)


def _archive(entry: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(entry)
    return buffer.getvalue()
