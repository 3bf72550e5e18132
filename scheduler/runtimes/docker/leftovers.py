"""Removal of Schedulearn's objects from a Docker Engine.

They are found by our labels and names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import docker.errors

from schedulearn.scheduler.runtimes.docker.api import Engine, explain, status_of
from schedulearn.scheduler.runtimes.docker.container import LABEL
from schedulearn.scheduler.runtimes.docker.volumes import SDK_VOLUMES
from schedulearn.scheduler.runtimes.recipes import is_ours

SERVER_IMAGE = "schedulearn/server"
"""Image of the service in docker-compose.yml; it may be running this code."""
_STAND_IN = "schedulearn.base"  # label of the base image that base-image.sh builds if no registry can be reached


@dataclass(frozen=True)
class Leftovers:
    """Schedulearn's objects on an engine, by name.

    Several services on one engine share the images and the SDK's volume."""

    containers: Sequence[str] = ()
    running: int = 0
    """Number of running or paused containers."""
    volumes: Sequence[str] = ()
    images: Sequence[str] = ()
    shared_with: Sequence[str] = ()
    """Ids of other services with containers or volumes there. If any, images and the SDK's volume are not listed."""

    def __bool__(self) -> bool:
        return bool(self.containers or self.volumes or self.images)


def find_leftovers(engine: Engine, cluster_id: str | None, *, images: bool = True) -> Leftovers:
    """Find the objects of the service `cluster_id`, or of all services for None.

    Raises RuntimeFault if the engine does not answer."""
    with engine.errors("list the objects of Schedulearn"):
        api = engine.api
        containers = api.containers(all=True, filters={"label": LABEL})
        volumes = api.volumes()["Volumes"] or []
        found = api.images() if images else []

    def owner(row: Any) -> str | None:
        owned: str | None = (row.get("Labels") or {}).get(LABEL)
        return owned

    def wanted(row: Any) -> bool:
        return owner(row) is not None and cluster_id in (None, owner(row))

    owners = {owner(row) for row in [*containers, *volumes]} - {None}
    others = sorted(str(each) for each in owners - {cluster_id}) if cluster_id is not None else []
    mine = [row for row in containers if wanted(row)]
    sdk = [row["Name"] for row in volumes if row["Name"].startswith(SDK_VOLUMES)]
    return Leftovers(
        containers=sorted(row["Names"][0].removeprefix("/") for row in mine if row["Names"]),
        running=sum(row["State"] in ("running", "paused") for row in mine),
        volumes=sorted([row["Name"] for row in volumes if wanted(row)] + ([] if others else sdk)),
        images=[] if others else sorted(name for image in found for name in our_names(image)),
        shared_with=others,
    )


def our_names(image: Any) -> Iterator[str]:
    """Yield the names of a listed image that only Schedulearn uses."""
    for name in image.get("RepoTags") or ():
        repository = name.rpartition(":")[0]
        stand_in = repository == "python" and _STAND_IN in (image.get("Labels") or {})
        if stand_in or (is_ours(name) and repository != SERVER_IMAGE):
            yield name


def remove_leftovers(engine: Engine, found: Leftovers) -> list[str]:
    """Remove the objects, running or not; return the failures, each as "name: reason".

    Raises RuntimeFault if the engine does not answer."""
    api = engine.api
    problems: list[str] = []
    with engine.errors("remove the objects of Schedulearn"):
        steps: list[tuple[str, Callable[[str], object]]] = [
            *((name, partial(api.remove_container, v=True, force=True)) for name in found.containers),
            *((name, api.remove_volume) for name in found.volumes),
            *((name, api.remove_image) for name in found.images),
        ]
        for name, remove in steps:
            try:
                remove(name)
            except docker.errors.APIError as error:
                if status_of(error) != 404:
                    problems.append(f"{name}: {explain(error)}")
    return problems
