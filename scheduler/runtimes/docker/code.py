"""Copying of a job's code into its container.

The container starts only after all of the code is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docker.types import Mount

from schedulearn.scheduler.runtimes.docker.container import WORKSPACE

_PIECE = 1 << 20


def put_code(api: Any, container: str, archive: Path, *, apart: bool = False) -> None:
    """Unpack the code into a container. Raises docker's APIError.

    The container may have a part of the code already, if a service died meanwhile. An engine unpacks as root, and
    follows the links of the container's image. With `apart`, no link can lead to other mounts of the container. The
    code's folder is then a separate volume, which is filled through a container that has only this volume.
    """
    if not apart:
        api.put_archive(container, WORKSPACE, _content(archive))
        return
    found = api.inspect_container(container)
    [volume] = [mount["Name"] for mount in found["Mounts"] if mount["Destination"] == WORKSPACE]
    mounts = [Mount(WORKSPACE, volume, type="volume", no_copy=True)]
    helper = api.create_container(
        found["Image"], ["true"], entrypoint=[], host_config=api.create_host_config(mounts=mounts)
    )["Id"]
    try:
        api.put_archive(helper, WORKSPACE, _content(archive))
    finally:
        api.remove_container(helper, force=True)


def _content(archive: Path) -> Iterator[bytes]:
    with archive.open("rb") as source:
        while piece := source.read(_PIECE):
            yield piece
