"""Volumes of jobs, read and filled through the engine.

No program on the host is needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import docker.errors

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine, status_of
from schedulearn.scheduler.runtimes.docker.storage.volume_view import VolumeView
from schedulearn.scheduler.runtimes.docker.volumes import VolumeKind

_HELPER = "schedulearn.look"
"""Label of a helper container for access to a volume. Its value is the volume's name."""
_MAKER = "schedulearn.look.maker"
_IMAGES = 5  # maximum number of images tried for a helper container


class JobVolumes:
    """`JobFolders` of one kind on one engine, for the service with this `label` and `cluster_id`."""

    def __init__(self, engine: Engine, kind: VolumeKind, label: str, cluster_id: str) -> None:
        self._engine = engine
        self._kind = kind
        self._maker = uuid.uuid4().hex
        self._labels = {label: cluster_id}
        self._filter = f"{label}={cluster_id}"

    def jobs(self) -> list[str]:
        with self._engine.errors("list its volumes"):
            found = self._engine.api.volumes(filters={"label": [self._filter]})["Volumes"] or []
        return [job for volume in found if (job := (volume.get("Labels") or {}).get(self._kind.label))]

    def drop(self, job_id: str) -> None:
        with self._engine.errors("remove a volume"):
            if self._exists(job_id):
                self._remove_helpers(job_id)
                self._remove(job_id)

    def changed_at(self, job_id: str) -> float | None:
        with self.view(job_id) as view:
            found = view.stat("") if view is not None else None
            return found.modified_at if found is not None else None

    def save(self, job_id: str) -> Iterator[bytes]:
        with self.view(job_id) as view:
            if view is not None:
                yield from view.pack("")

    def load(self, job_id: str, archive: Iterable[bytes], *, keep: bool = False) -> None:
        with self._engine.errors(f"store {self._kind.name}"):
            for row in self._containers(job_id):
                if row["State"] != "created":
                    name = row["Names"][0].removeprefix("/")
                    raise RuntimeFault(f"{name} still uses the {self._kind.name} of {job_id}")
                self._engine.api.remove_container(row["Id"], force=True)  # never ran: its start was interrupted
            if not keep:
                self._remove_helpers(job_id)
                self._remove(job_id)
            try:
                with self.filling(job_id) as put:
                    put(archive)
            except BaseException:
                if not keep:
                    self._remove(job_id)
                raise

    @contextmanager
    def filling(self, job_id: str) -> Iterator[Callable[[Iterable[bytes]], None]]:
        """Yield a function that adds archives to a volume. The volume is created if it does not exist."""
        with self._engine.errors(f"store {self._kind.name}"), self._helper(job_id) as container:
            yield partial(self._put, container)

    def _put(self, container: str, archive: Iterable[bytes]) -> None:
        with self._engine.stream(
            "PUT",
            f"/containers/{container}/archive",
            params={"path": self._kind.path},
            data=iter(archive),  # a list would be treated as form fields
            headers={"Content-Type": "application/x-tar"},
        ) as stream:
            for _ in stream.chunks():
                pass

    @contextmanager
    def view(self, job_id: str) -> Iterator[VolumeView | None]:
        """Open a view through a running container of the job, or a helper.

        Ended containers are not used, since they may be removed."""
        with self._engine.errors(f"read {self._kind.name}"):
            container = self._running(job_id)
            if container is None and not self._exists(job_id):
                yield None
                return
            if container is not None:
                yield VolumeView(self._engine, container, self._kind.path)
                return
            with self._helper(job_id) as helper:
                yield VolumeView(self._engine, helper, self._kind.path)

    @contextmanager
    def _helper(self, job_id: str) -> Iterator[str]:
        """Create a helper container, since an engine can access a volume only through one.

        It is never started, so any image can be used."""
        api = self._engine.api
        self._remove_helpers(job_id, left_only=True)
        images = api.images(quiet=True)
        if not images:
            raise RuntimeFault(
                f"the engine at {self._engine.url} has no image, so its volumes can't be read: pull any image there"
            )
        container = self._create_helper(job_id, images)
        try:
            yield container
        finally:
            with suppress(docker.errors.APIError):  # it stays, and the next call tries again
                self._remove_container(container)

    def _create_helper(self, job_id: str, images: list[str]) -> str:
        """Create a helper container from the first image that the engine can use."""
        api = self._engine.api
        for left, image in enumerate(images[:_IMAGES], start=1 - len(images[:_IMAGES])):
            try:
                made = api.create_container(
                    image,
                    ["true"],
                    labels={**self._labels, _HELPER: self._kind.volume(job_id), _MAKER: self._maker},
                    host_config=api.create_host_config(mounts=[self._kind.mount(job_id, self._labels)]),
                )
            except docker.errors.APIError:
                if not left:
                    raise
            else:
                return str(made["Id"])
        raise AssertionError(images)

    def _running(self, job_id: str) -> str | None:
        """Return the job's running or paused container with the volume, or None.

        Containers that may write to a folder of the host are skipped. The engine reads as root. A link made by the job
        could lead it to files of the host that the job may not read."""
        volume = self._kind.volume(job_id)
        for row in self._containers(job_id):
            if any(m.get("Type") == "bind" and m.get("RW") for m in row["Mounts"]):
                continue
            if row["State"] in ("running", "paused") and any(m.get("Name") == volume for m in row["Mounts"]):
                return str(row["Id"])
        return None

    def _containers(self, job_id: str) -> list[Any]:
        filters = {"label": [self._filter, f"schedulearn.job={job_id}"]}
        return list(self._engine.api.containers(all=True, filters=filters))

    def _exists(self, job_id: str) -> bool:
        try:
            self._engine.api.inspect_volume(self._kind.volume(job_id))
        except docker.errors.NotFound:
            return False
        return True

    def _remove_helpers(self, job_id: str, *, left_only: bool = False) -> None:
        """Remove the volume's helper containers. With `left_only`, only those of a killed service."""
        filters = {"label": [self._filter, f"{_HELPER}={self._kind.volume(job_id)}"]}
        for row in self._engine.api.containers(all=True, filters=filters):
            if not left_only or row["Labels"].get(_MAKER) != self._maker:
                with suppress(docker.errors.APIError):  # if one stays, removing the volume fails by itself if it must
                    self._remove_container(row["Id"])

    def _remove_container(self, container: str) -> None:
        try:
            self._engine.api.remove_container(container, force=True)
        except docker.errors.APIError as error:
            if status_of(error) not in (404, 409):  # another thread is removing it
                raise

    def _remove(self, job_id: str) -> None:
        """Remove the volume. Does nothing if it does not exist, or while a container uses it."""
        try:
            self._engine.api.remove_volume(self._kind.volume(job_id))
        except docker.errors.APIError as error:
            if status_of(error) not in (404, 409):
                raise
