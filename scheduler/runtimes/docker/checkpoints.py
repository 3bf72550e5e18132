"""A job's volume of checkpoints, read and filled through the engine: nothing of it needs a program on the host."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import docker.errors
from docker.types import Mount

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine, status_of
from schedulearn.scheduler.runtimes.docker.volumes import CHECKPOINTS_PATH, LABEL_JOB, checkpoint_volume

_CONTENT = f"{CHECKPOINTS_PATH}/."


class CheckpointVolumes:
    """The `Checkpoints` of one service, by its `label` and `cluster_id`, on one engine."""

    def __init__(self, engine: Engine, label: str, cluster_id: str) -> None:
        self._engine = engine
        self._labels = {label: cluster_id}
        self._filter = f"{label}={cluster_id}"

    def jobs(self) -> list[str]:
        with self._engine.errors("list its volumes"):
            found = self._engine.api.volumes(filters={"label": [self._filter]})["Volumes"] or []
        return [job for volume in found if (job := (volume.get("Labels") or {}).get(LABEL_JOB))]

    def drop(self, job_id: str) -> None:
        with self._engine.errors("remove a volume"):
            if self._exists(job_id):
                self._remove_helper(job_id)
                self._remove(job_id)

    def changed_at(self, job_id: str) -> float | None:
        with self._engine.errors("look at checkpoints"):
            if not self._containers(job_id) and not self._exists(job_id):
                return None
            with self._reader(job_id) as container:
                api = self._engine.api
                url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"
                answer = api.request("HEAD", url, params={"path": CHECKPOINTS_PATH}, timeout=api.timeout)
                answer.raise_for_status()
                stat = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
                return datetime.fromisoformat(stat["mtime"]).timestamp()

    def save(self, job_id: str) -> Iterator[bytes]:
        with self._engine.errors("hand out checkpoints"):
            if not self._exists(job_id):
                return
            with (
                self._reader(job_id) as container,
                self._engine.stream("GET", f"/containers/{container}/archive", params={"path": _CONTENT}) as stream,
            ):
                yield from stream.chunks()

    def load(self, job_id: str, archive: Iterable[bytes]) -> None:
        with self._engine.errors("take checkpoints"):
            for row in self._containers(job_id):
                if row["State"] != "created":
                    raise RuntimeFault(f"{row['Names'][0].removeprefix('/')} still has the checkpoints of {job_id}")
                self._engine.api.remove_container(row["Id"], force=True)  # never ran: its start was interrupted
            self._remove_helper(job_id)
            self._remove(job_id)
            try:
                with (
                    self._helper(job_id) as container,
                    self._engine.stream(
                        "PUT",
                        f"/containers/{container}/archive",
                        params={"path": CHECKPOINTS_PATH},
                        data=iter(archive),  # a list would be taken for fields of a form
                        headers={"Content-Type": "application/x-tar"},
                    ) as stream,
                ):
                    for _ in stream.chunks():
                        pass
            except BaseException:
                self._remove(job_id)
                raise

    @contextmanager
    def _reader(self, job_id: str) -> Iterator[str]:
        """A container that has the volume: one of the job, or one made for it."""
        found = self._containers(job_id)
        if found:
            yield found[0]["Id"]
            return
        with self._helper(job_id) as container:
            yield container

    @contextmanager
    def _helper(self, job_id: str) -> Iterator[str]:
        """An engine looks into volumes only through containers; this one is never started, so any image will do."""
        api = self._engine.api
        self._remove_helper(job_id)  # of a service that was killed
        images = api.images(quiet=True)
        if not images:
            raise RuntimeFault(f"the engine at {self._engine.url} has no image to look into a volume with")
        labels = {**self._labels, LABEL_JOB: job_id}
        mount = Mount(CHECKPOINTS_PATH, checkpoint_volume(job_id), type="volume", labels=labels)
        container = api.create_container(
            images[0],
            ["true"],
            name=_helper_name(job_id),
            labels=self._labels,
            host_config=api.create_host_config(mounts=[mount]),
        )["Id"]
        try:
            yield container
        finally:
            self._remove_helper(job_id)

    def _containers(self, job_id: str) -> list[Any]:
        filters = {"label": [self._filter, f"schedulearn.job={job_id}"]}
        return list(self._engine.api.containers(all=True, filters=filters))

    def _exists(self, job_id: str) -> bool:
        try:
            self._engine.api.inspect_volume(checkpoint_volume(job_id))
        except docker.errors.NotFound:
            return False
        return True

    def _remove_helper(self, job_id: str) -> None:
        try:
            self._engine.api.remove_container(_helper_name(job_id), force=True)
        except docker.errors.NotFound:
            pass

    def _remove(self, job_id: str) -> None:
        """Nothing happens without it, or while a container has it."""
        try:
            self._engine.api.remove_volume(checkpoint_volume(job_id))
        except docker.errors.APIError as error:
            if status_of(error) not in (404, 409):
                raise


def _helper_name(job_id: str) -> str:
    return f"schedulearn-look-{job_id}"
