"""Shared data of jobs, as volumes of one engine.

A volume counts only together with its mark, a second, empty volume. The mark is created once the content is complete,
and names the volume and its creation time. If a container names a volume that does not exist, the engine creates an
empty one. Its creation time then differs from the one in the mark.
"""

from __future__ import annotations

import hashlib
import tarfile
import uuid
from collections.abc import Iterable, Sequence, Set
from typing import Any

import docker.errors

from schedulearn.scheduler.core.needs import folder_name, key_of
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.api import Engine, status_of
from schedulearn.scheduler.runtimes.docker.storage.job_volumes import JobVolumes
from schedulearn.scheduler.runtimes.docker.volumes import DATA, OUTPUTS, PARTS

_MARK = "schedulearn.data.mark"
"""Label of a mark; its value is the key."""
_VOLUME, _MADE = "schedulearn.data.volume", "schedulearn.data.made"
_PAIR = "schedulearn.data.pair"
"""Label of a volume that is filled in parts, with the same value on its volume of complete parts."""
_EMPTY = bytes(1024)
"""An empty archive."""
_MANY = 1_000_000


class DataVolumes:
    """`SharedData` of one engine, for the service with this `label` and `cluster_id`."""

    def __init__(self, engine: Engine, label: str, cluster_id: str) -> None:
        self._engine = engine
        self._service = hashlib.sha256(cluster_id.encode()).hexdigest()[:8]
        self._content = JobVolumes(engine, DATA, label, cluster_id)
        self._parts = JobVolumes(engine, PARTS, label, cluster_id)
        self._labels = {label: cluster_id}
        self._filter = f"{label}={cluster_id}"

    def all_keys(self) -> Sequence[str]:
        with self._engine.errors("list its data"):
            found = self._engine.api.volumes(filters={"label": [self._filter, _MARK]})["Volumes"] or []
        return sorted(str(mark["Labels"][_MARK]) for mark in found)

    def has(self, key: str) -> bool:
        return self.volume_of(key) is not None

    def seen_at(self, key: str, target: str) -> str:
        return target

    def volume_of(self, key: str) -> str | None:
        """Return the volume with the complete content; None if there is none."""
        with self._engine.errors("find data"):
            mark = self._inspect(self._mark(key))
            if mark is None:
                return None
            labels = mark.get("Labels") or {}
            volume = str(labels.get(_VOLUME, ""))
            found = self._inspect(volume)
            return volume if found is not None and found.get("CreatedAt") == labels.get(_MADE) else None

    def load(self, key: str, archives: Iterable[Iterable[bytes]], parts: Sequence[str] | None = None) -> None:
        if self.has(key):
            return
        with self._engine.errors("store data"):
            self._remove(self._mark(key))
            name = self._name(key)
            if parts is None or not self.begun(key):
                self._parts.drop(name)  # first, because it describes the content of the other one
                self._content.load(name, [_EMPTY])  # replaces unfinished content of another service
                if parts is not None:
                    self._make_pair(name)
            try:
                if parts is None:
                    for archive in archives:
                        self._content.load(name, archive, keep=True)
                else:
                    self._add(name, archives, parts)
                self._set_mark(key, DATA.volume(name))
                self._parts.drop(name)
            except BaseException:
                if parts is None:
                    self._content.drop(name)
                raise

    def begun(self, key: str) -> Set[str]:
        name = self._name(key)
        with self._engine.errors("find data"):
            pair = [(self._inspect(kind.volume(name)) or {}).get("Labels") or {} for kind in (DATA, PARTS)]
            if _PAIR not in pair[0] or pair[0][_PAIR] != pair[1].get(_PAIR):
                return frozenset()
            with self._parts.view(name) as view:
                found = view.entries("", "", _MANY) if view is not None else ()
            return frozenset(entry.name for entry in found)

    def unfinished(self) -> Sequence[str]:
        names = sorted({*self._content.jobs(), *self._parts.jobs()})
        found = [key_of(name.removeprefix(f"{self._service}-")) for name in names]
        whole = set(self.all_keys())
        return [key for key in found if key is not None and key not in whole]

    def link(self, key: str, job_id: str) -> None:
        if self.has(key):
            return
        with self._engine.errors("store data"):
            self._remove(self._mark(key))
            self._set_mark(key, OUTPUTS.volume(job_id))

    def drop(self, key: str) -> None:
        with self._engine.errors("remove data"):
            self._parts.drop(self._name(key))
            self._content.drop(self._name(key))
            if self._inspect(DATA.volume(self._name(key))) is None:  # otherwise a container uses it
                self._remove(self._mark(key))

    def _make_pair(self, name: str) -> None:
        """Create the volumes of content and of complete parts, with a common label.

        A volume that an engine creates by itself lacks the label. Creation times can't be compared here: an engine's
        time of a volume changes when a file is added to it."""
        self._content.drop(name)
        labels = {**self._labels, _PAIR: uuid.uuid4().hex}
        for kind in (DATA, PARTS):
            self._engine.api.create_volume(kind.volume(name), labels={**labels, kind.label: name})

    def _add(self, name: str, archives: Iterable[Iterable[bytes]], parts: Sequence[str]) -> None:
        """Add the archives, and record each part once it is complete."""
        with self._content.filling(name) as put, self._parts.filling(name) as note:
            for number, archive in enumerate(archives):
                put(archive)
                note([_empty_file(parts[number])])

    def _set_mark(self, key: str, volume: str) -> None:
        found = self._inspect(volume)
        if found is None:
            raise RuntimeFault(f"the volume {volume} was removed from the engine at {self._engine.url}")
        labels = {**self._labels, _MARK: key, _VOLUME: volume, _MADE: str(found["CreatedAt"])}
        self._engine.api.create_volume(self._mark(key), labels=labels)

    def _name(self, key: str) -> str:
        """Return the volume's name, which includes the service's id.

        Services on one engine don't share data, because each removes data that its own jobs no longer need."""
        return f"{self._service}-{folder_name(key)}"

    def _mark(self, key: str) -> str:
        return f"{DATA.volume(self._name(key))}-whole"

    def _inspect(self, volume: str) -> Any | None:
        try:
            return self._engine.api.inspect_volume(volume)
        except docker.errors.NotFound:
            return None

    def _remove(self, volume: str) -> None:
        try:
            self._engine.api.remove_volume(volume)
        except docker.errors.APIError as error:
            if status_of(error) not in (404, 409):
                raise


def _empty_file(name: str) -> bytes:
    return tarfile.TarInfo(name).tobuf(tarfile.PAX_FORMAT) + _EMPTY
