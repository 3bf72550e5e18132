"""Volumes of task containers.

They are the SDK, which is filled once per engine, and the job's checkpoints and outputs, which outlive attempts.
"""

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
"""Prefix of the names of the SDK's volumes, one for each version."""
CHECKPOINTS_PATH = "/schedulearn/checkpoints"
OUTPUTS_PATH = "/outputs"
_COMPLETE = "complete"  # the file that is written last


@dataclass(frozen=True)
class VolumeKind:
    """Kind of volume, such as checkpoints; each job has one of each kind."""

    name: str
    path: str
    """Path in the job's containers."""

    @property
    def label(self) -> str:
        """Label whose value is the job's id."""
        return f"schedulearn.{self.name}"

    def volume(self, job_id: str) -> str:
        return f"schedulearn-{self.name}-{job_id}"

    def mount(self, job_id: str, labels: Mapping[str, str]) -> Any:
        """Return the mount of a job's volume.

        The engine creates the volume with the first container that uses it. It copies no files of the image into it,
        since the image may be anybody's."""
        labels = {**labels, self.label: job_id}
        return Mount(self.path, self.volume(job_id), type="volume", no_copy=True, labels=labels)


CHECKPOINTS = VolumeKind("checkpoints", CHECKPOINTS_PATH)
OUTPUTS = VolumeKind("outputs", OUTPUTS_PATH)
DATA = VolumeKind("data", "/data")
"""Shared data. Its volume has the name of its content in place of a job's id; jobs choose its path."""
PARTS = VolumeKind("data-parts", "/parts")
"""Companion of a `DATA` volume that is being filled, with an empty file per complete part. No job uses it."""


def sdk_volume() -> str:
    return f"{SDK_VOLUMES}{sdk_digest()}"


def mounts(job_id: str, cluster_label: str, cluster_id: str) -> list[Any]:
    """Return the mounts of a job's container, for `create_host_config`."""
    labels = {cluster_label: cluster_id}
    return [
        Mount(SDK_PATH, sdk_volume(), type="volume", read_only=True, no_copy=True),
        CHECKPOINTS.mount(job_id, labels),
        OUTPUTS.mount(job_id, labels),
    ]


def data_sets(folders: Mapping[str, str], writable: Collection[str] = ()) -> list[Any]:
    """Return the mounts of host folders. `folders` maps paths in the container to folders of the host.

    An engine refuses a folder that does not exist. `writable` lists the paths that are not read-only."""
    return [Mount(target, source, type="bind", read_only=target not in writable) for target, source in folders.items()]


def shared_data(volumes: Mapping[str, str]) -> list[Any]:
    """Return the mounts of shared data. `volumes` maps paths in the container to volumes."""
    return [Mount(target, volume, type="volume", read_only=True, no_copy=True) for target, volume in volumes.items()]


class SdkVolume:
    """Volume with the SDK on one engine. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = False

    def ensure(self, api: Any, image: str) -> None:
        """Make sure that the volume exists and is complete. Raises docker's APIError.

        `image` may be any image of the engine."""
        with self._lock:
            if self._known:
                try:
                    api.inspect_volume(sdk_volume())
                    return
                except docker.errors.NotFound:
                    self._known = False  # the volume was pruned
            # An engine can access volumes only through containers; this one is never started.
            mount = Mount(SDK_PATH, sdk_volume(), type="volume", no_copy=True)
            helper = api.create_container(image, ["true"], host_config=api.create_host_config(mounts=[mount]))["Id"]
            try:
                if not self._is_complete(api, helper):
                    api.put_archive(helper, SDK_PATH, sdk_archive())
                    api.put_archive(helper, SDK_PATH, _archive(tarfile.TarInfo(_COMPLETE)))
            finally:
                with suppress(docker.errors.APIError):  # a remaining helper does not prevent using the volume
                    api.remove_container(helper, force=True)
            self._known = True

    @staticmethod
    def _is_complete(api: Any, helper: str) -> bool:
        """Whether an earlier service filled the volume completely."""
        try:
            content, _ = api.get_archive(helper, f"{SDK_PATH}/{_COMPLETE}")
        except docker.errors.NotFound:
            return False
        content.close()
        return True


def open_to(api: Any, container: str, owner: RunAs | None, paths: Collection[str]) -> None:
    """Make folders writable for an account of the hosts, or else for any user.

    New folders belong to root. Without `owner` the container runs as a user of its image, whose uid is unknown here."""
    for path in map(PurePosixPath, paths):
        folder = tarfile.TarInfo(path.name)  # unpacking into a folder does not change that folder
        folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, 0o1777, int(time.time())
        if owner is not None:
            folder.uid, folder.gid, folder.mode = owner.uid, owner.gid, 0o755
        api.put_archive(container, str(path.parent), _archive(folder))


class ImageSettings(NamedTuple):
    """Settings of an image; empty if it sets none."""

    id: str
    python_path: str
    places: tuple[str, ...]
    """Folders that engines create for the image: its working directory and its volumes."""


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
