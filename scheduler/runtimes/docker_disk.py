"""What takes room on an engine's disk, as it counts it."""

from __future__ import annotations

from typing import Any

import docker.errors

from schedulearn.scheduler.runtimes.base import Disk, Stored
from schedulearn.scheduler.runtimes.docker_api import Engine, status_of
from schedulearn.scheduler.runtimes.docker_volumes import LABEL_JOB

_QUERY_S = 300.0  # an engine adds up the files of all volumes


def disk(engine: Engine, cluster_label: str, cluster_id: str) -> Disk:
    """As `Runtime.disk`."""
    with engine.errors("say what takes room"):
        api = engine.api
        answer = api.request("GET", f"{api.base_url}/v{api.api_version}/system/df", timeout=(5.0, _QUERY_S))
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
    images = []
    for image in found.get("Images") or ():
        # Layers that others have too stay when it goes.
        own = int(image.get("Size") or 0) - max(0, int(image.get("SharedSize") or 0))
        images += [Stored(name, own) for name in image.get("RepoTags") or () if name != "<none>:<none>"]
    checkpoints = []
    for volume in found.get("Volumes") or ():
        labels = volume.get("Labels") or {}
        if labels.get(cluster_label) == cluster_id and LABEL_JOB in labels:
            size = int((volume.get("UsageData") or {}).get("Size") or 0)
            checkpoints.append(Stored(labels[LABEL_JOB], max(0, size)))
    return Disk(
        images=tuple(sorted(images, key=lambda each: each.name)),
        images_bytes=int(found.get("LayersSize") or 0),
        checkpoints=tuple(sorted(checkpoints, key=lambda each: each.name)),
    )


def remove_image(engine: Engine, image: str) -> None:
    """As `Runtime.remove_image`."""
    with engine.errors("remove an image"):
        try:
            engine.api.remove_image(image)
        except docker.errors.APIError as error:
            if status_of(error) not in (404, 409):  # it is not there, or a container has it
                raise
