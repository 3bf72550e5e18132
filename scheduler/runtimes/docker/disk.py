"""Disk usage of an engine, as it reports it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schedulearn.scheduler.core.job_image import LAYERS
from schedulearn.scheduler.core.needs import key_of
from schedulearn.scheduler.runtimes.contract import Disk, Stored, StoredImage
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.layers import LABEL_MAKER
from schedulearn.scheduler.runtimes.docker.volumes import CHECKPOINTS, DATA, OUTPUTS, VolumeKind

_QUERY_S = 300.0  # long, because an engine adds up the files of all volumes


def disk(engine: Engine, cluster_label: str, cluster_id: str) -> Disk:
    """Implement `Runtime.disk`."""
    with engine.errors("report its disk usage"):
        api = engine.api
        answer = api.request("GET", f"{api.base_url}/v{api.api_version}/system/df?verbose=1", timeout=(5.0, _QUERY_S))
        answer.raise_for_status()
    return read_disk(answer.json(), cluster_label, cluster_id)


def read_disk(found: Mapping[str, Any], cluster_label: str, cluster_id: str) -> Disk:
    """Convert an engine's answer. Since version 1.52 of the API, each kind of object is an object with `Items`."""
    image_usage, volume_usage = found.get("ImageUsage") or {}, found.get("VolumeUsage") or {}
    images = []
    for image in found.get("Images") or image_usage.get("Items") or ():
        size, shared = int(image.get("Size") or 0), max(0, int(image.get("SharedSize") or 0))
        ours = (image.get("Labels") or {}).get(LABEL_MAKER) == cluster_id
        for name in image.get("RepoTags") or ():
            if name != "<none>:<none>":
                own = ours and name.startswith(LAYERS)  # a user's image based on it inherits the label
                images.append(StoredImage(name, size, max(0, size - shared), own))
    volumes = [
        volume
        for volume in found.get("Volumes") or volume_usage.get("Items") or ()
        if (volume.get("Labels") or {}).get(cluster_label) == cluster_id
    ]
    return Disk(
        images=tuple(sorted(images, key=lambda each: each.name)),
        images_bytes=int(found.get("LayersSize") or image_usage.get("TotalSize") or 0),
        checkpoints=_stored(volumes, CHECKPOINTS),
        outputs=_stored(volumes, OUTPUTS),
        data=_data(_stored(volumes, DATA)),
    )


def _data(volumes: Iterable[Stored]) -> tuple[Stored, ...]:
    """Return the sizes by key. The volumes' names start with the service's id, which is removed."""
    named = ((key_of(each.name.partition("-")[2]), each.bytes) for each in volumes)
    return tuple(Stored(key, size) for key, size in named if key is not None)


def _stored(volumes: Iterable[Mapping[str, Any]], kind: VolumeKind) -> tuple[Stored, ...]:
    found = (
        Stored(volume["Labels"][kind.label], max(0, int((volume.get("UsageData") or {}).get("Size") or 0)))
        for volume in volumes
        if kind.label in volume["Labels"]
    )
    return tuple(sorted(found, key=lambda each: each.name))
