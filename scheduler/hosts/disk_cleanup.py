"""Disk quotas on all hosts, and fetches of images wanted everywhere.

When images, checkpoints, outputs, data, logs or code exceed their quota, the least recently used are deleted first.
Only objects that this service's jobs put there are deleted, and only if no unfinished job uses them. Objects of other
users of an engine are left alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.code.store import CodeStore
from schedulearn.scheduler.core.job_image import NamesImage, layer_tag, split_layered
from schedulearn.scheduler.core.needs import Data, Image
from schedulearn.scheduler.disk_room import take_reserve
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.hosts.one_object import about_one
from schedulearn.scheduler.runtimes.contract import Disk, Stored
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store.data.needed import needed_outputs
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job, Task
from schedulearn.scheduler.store.owned import OWNED

log = logging.getLogger(__name__)

_FIRST_S, _EVERY_S = 20.0, 600.0


@dataclass(frozen=True)
class StoredItem:
    name: str
    bytes: int
    used_at: float | None
    """Time of the last use; None: the item must stay."""


def surplus(items: Iterable[StoredItem], total: int, room: int) -> list[str]:
    """Return the names of items to delete so that `total` bytes fit into `room`.

    The least recently used items come first. A `room` of 0 means no limit. Pure."""
    gone: list[str] = []
    if room > 0:
        for item in sorted((i for i in items if i.used_at is not None), key=lambda i: (i.used_at or 0.0, i.name)):
            if total <= room:
                break
            gone.append(item.name)
            total -= item.bytes
    return gone


class Housekeeping:
    """Thread that enforces the disk quotas on every host periodically."""

    def __init__(
        self,
        db: Database,
        agents: Callable[[], Mapping[str, HostAgent]],
        logs: LogStore,
        code: CodeStore,
        settings: ClusterSettings,
        collect_data: Callable[[], int] = lambda: 0,
    ) -> None:
        self._db = db
        self._agents = agents
        self._logs = logs
        self._code = code
        self._collect_data = collect_data
        self._settings = settings
        self._thread = Background(
            "housekeeping", self._run, first_s=_FIRST_S, trouble="housekeeping failed", trouble_s=_EVERY_S
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def tidy(self) -> None:
        """Clean up all hosts once. A host that does not answer is skipped until the next time."""
        take_reserve(self._logs.root.parent)
        for agent in self._agents().values():
            if agent.status.observation is None or self._thread.stopping:
                continue
            for image in self._settings.images:
                if not agent.has(Image(agent.image_here(image))):
                    agent.fetch(image)
            try:
                self._forget_unfinished(agent)
                if self._bounds_hosts:
                    self._tidy_host(agent)
            except RuntimeFault as fault:
                log.warning("disk cleanup of %s failed: %s", agent.host_id, fault)
        if freed := self._collect_data():
            log.info("deleted content that no version of a data set uses: %.0f MB", freed / 1e6)
        if self._settings.log_room:
            self._tidy_logs()
        for gone in self._code.prune(self._needed_code, self._settings.code_room, time.time()):
            log.info("deleted the code %s: code_room is full", gone.digest)

    @property
    def _bounds_hosts(self) -> bool:
        chosen = self._settings
        return bool(chosen.image_room or chosen.checkpoint_room or chosen.output_room or chosen.data_room)

    def of_host(self, agent: HostAgent) -> tuple[Disk, dict[str, float | None]]:
        """Return the disk usage of a host, and when jobs last used each image.

        The time is None for an image that an unfinished job names."""
        disk = agent.runtime.disk()
        with self._db.read() as db:
            return disk, images_of_jobs(db, agent.host_id, time.time(), agent.image_of)

    def _tidy_host(self, agent: HostAgent) -> None:
        disk, used = self.of_host(agent)
        keep = {_tagged(image) for image in self._settings.images}
        unknown = {image.name: 0.0 for image in disk.images if image.own}  # its jobs were deleted
        used = {**unknown, **used, **dict.fromkeys(keep)}
        images = [StoredItem(image.name, image.own_bytes, used.get(image.name)) for image in disk.images]
        for name in surplus(images, disk.images_bytes, self._settings.image_room):
            log.info("deleting image %s on %s: image_room is full", name, agent.host_id)
            with about_one(f"image {name} on {agent.host_id}"):
                agent.forget(Image(name))
        for job_id in self._jobs_to_drop(disk.checkpoints, self._settings.checkpoint_room):
            log.info("deleting the checkpoints of job %s on %s: checkpoint_room is full", job_id, agent.host_id)
            with about_one(f"checkpoints of {job_id} on {agent.host_id}"):
                agent.drop_checkpoints(job_id, lambda: True)
        with self._db.read() as db:
            needed = needed_outputs(db)
        for job_id in self._jobs_to_drop(disk.outputs, self._settings.output_room, needed):
            log.info("deleting the outputs of job %s on %s: output_room is full", job_id, agent.host_id)
            with about_one(f"outputs of {job_id} on {agent.host_id}"):
                agent.drop_outputs(job_id, lambda: True)
        self._tidy_data(agent, disk.data)

    def _forget_unfinished(self, agent: HostAgent) -> None:
        """Delete interrupted copies of shared data, unless an unfinished job needs them."""
        for key in agent.runtime.data.unfinished():
            with self._db.read() as db:
                needed = data_of_jobs(db, agent.host_id, time.time()).get(key, 0.0) is None
            if not needed:
                log.info("deleting %s on %s: the copy is incomplete, and no job needs it", Data(key), agent.host_id)
                with about_one(f"{key} on {agent.host_id}"):
                    agent.runtime.data.drop(key)

    def _tidy_data(self, agent: HostAgent, kept: Sequence[Stored]) -> None:
        with self._db.read() as db:
            used = data_of_jobs(db, agent.host_id, time.time())
        items = [StoredItem(each.name, each.bytes, used.get(each.name, 0.0)) for each in kept]
        for key in surplus(items, sum(each.bytes for each in kept), self._settings.data_room):
            log.info("deleting %s on %s: data_room is full", Data(key), agent.host_id)
            with about_one(f"{key} on {agent.host_id}"):
                agent.forget(Data(key))

    def _jobs_to_drop(self, kept: Sequence[Stored], room: int, needed: Set[str] = frozenset()) -> list[str]:
        over = {**self._finished([stored.name for stored in kept]), **dict.fromkeys(needed)}
        items = [StoredItem(stored.name, stored.bytes, over.get(stored.name)) for stored in kept]
        return surplus(items, sum(each.bytes for each in items), room)

    def _tidy_logs(self) -> None:
        sizes = self._logs.sizes()
        tasks: dict[str, list[str]] = {}
        with self._db.read() as db:
            for task_id, job_id in db.execute(select(col(Task.id), col(Task.job_id))):
                if task_id in sizes:
                    tasks.setdefault(job_id, []).append(task_id)
        over = self._finished(list(tasks))
        items = [StoredItem(job, sum(sizes[task] for task in mine), over.get(job)) for job, mine in tasks.items()]
        for job in surplus(items, sum(sizes.values()), self._settings.log_room):
            log.info("deleting the logs of job %s: log_room is full", job)
            for task in tasks[job]:
                self._logs.delete(task)

    def _needed_code(self) -> set[str]:
        """Return the digests of the code of unfinished jobs, and of jobs that are still to come."""
        with self._db.read() as db:
            unfinished = select(col(Job.spec)).where(col(Job.finished_at).is_(None))
            of_jobs = {code_of(keys) for keys in db.execute(unfinished, execution_options={"yield_per": 500}).scalars()}
            to_come = {code_of(keys) for kind in OWNED.values() for _, keys in kind.jobs_to_come(db)}
            return {digest for digest in of_jobs | to_come if digest}

    def _finished(self, job_ids: Sequence[str]) -> dict[str, float | None]:
        """Return when each of these jobs ended; None: it has not ended."""
        found: dict[str, float | None] = {}
        with self._db.read() as db:
            for begin in range(0, len(job_ids), 500):
                some = job_ids[begin : begin + 500]
                found.update(db.execute(select(col(Job.id), col(Job.finished_at)).where(col(Job.id).in_(some))).all())
        return found

    def _run(self) -> float:
        self.tidy()
        return _EVERY_S


def code_of(job: Mapping[str, Any]) -> str | None:
    """Return the digest of the code that a job needs, by its keys."""
    code = job.get("code")
    digest: str | None = code.get("digest") if isinstance(code, dict) else code
    return digest


class _Named(NamedTuple):
    """Properties of a job that determine its image."""

    container_image: str
    launcher: str
    layer: str
    required_gpus: int


def images_of_jobs(
    db: Connection, host_id: str, now: float, image_of: Callable[[NamesImage], str]
) -> dict[str, float | None]:
    """Return when a job last used each image on this host, by name and tag.

    The time is None for an image that an unfinished job names, on whatever host that may run. Other images that no job
    ever used on this host are missing. `image_of` returns the image in which a job runs on this host."""
    columns = (col(Job.container_image), col(Job.launcher), col(Job.layer), col(Job.required_gpus))
    last = func.max(func.coalesce(col(Task.finished_at), now))
    there = select(*columns, last).join(Task, col(Task.job_id) == col(Job.id)).where(col(Task.host_id) == host_id)
    used: dict[str, float | None] = {}
    for *named, at in db.execute(there.group_by(*columns)):
        for name in _names_of(_Named._make(named), image_of):
            used[name] = max(at, used.get(name) or 0.0)
    unfinished = db.execute(select(*columns).where(col(Job.finished_at).is_(None)).distinct())
    return {**used, **{name: None for named in unfinished for name in _names_of(_Named(*named), image_of)}}


def data_of_jobs(db: Connection, host_id: str, now: float) -> dict[str, float | None]:
    """Return when a job last used shared data on this host, by key.

    The time is None for data that an unfinished job needs, on whatever host that may run. Other data that no job used
    on this host is missing."""
    last = func.max(func.coalesce(col(Task.finished_at), now))
    there = select(col(Job.inputs), last).join(Task, col(Task.job_id) == col(Job.id))
    used: dict[str, float | None] = {}
    with_data = col(Job.inputs) != {}
    for inputs, at in db.execute(there.where(col(Task.host_id) == host_id, with_data).group_by(col(Job.inputs))):
        for key in inputs.values():
            used[key] = max(at, used.get(key) or 0.0)
    unfinished = db.execute(select(col(Job.inputs)).where(col(Job.finished_at).is_(None), with_data).distinct())
    return {**used, **{key: None for (inputs,) in unfinished for key in inputs.values()}}


def _names_of(named: _Named, image_of: Callable[[NamesImage], str]) -> list[str]:
    """Return the names of the image and of its layer's image, as engines list them."""
    here = image_of(named)
    return [_tagged(split_layered(here)[0]), *([layer_tag(here)] if named.layer else [])]


def _tagged(image: str) -> str:
    """Return an image's name as engines list it: no tag means `latest`."""
    return image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"
