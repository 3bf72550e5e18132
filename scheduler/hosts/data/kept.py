"""Outputs of successful jobs, stored as versions of data sets and models.

A column of the job's row says that outputs are still to be stored. Therefore a restarted service continues, and outputs
on a silent host are stored once it answers again.
"""

from __future__ import annotations

import logging
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import select, update
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.background import Background
from schedulearn.scheduler.code.archive import Kind, link_stays_inside
from schedulearn.scheduler.core.states import TERMINAL, JobState
from schedulearn.scheduler.data.manifest import Manifest, ManifestEntry, manifest_of
from schedulearn.scheduler.data.store import DataStore
from schedulearn.scheduler.errors import QuotaError, RuntimeFault, SchedulearnError
from schedulearn.scheduler.hosts.job_files import OUTPUTS, JobFiles
from schedulearn.scheduler.runtimes.archives import reading
from schedulearn.scheduler.runtimes.contract import FileKind
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.data import versions
from schedulearn.scheduler.store.data.versions import Version
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.models import Job

log = logging.getLogger(__name__)

_EVERY_S = 2.0
_AT_ONCE = 20


class _EndedJob(NamedTuple):
    id: str
    user: str
    state: JobState
    spec: dict[str, Any]


class KeptOutputs:
    """Background thread that stores outputs as versions."""

    def __init__(self, db: Database, store: DataStore, files: JobFiles) -> None:
        self._db = db
        self._store = store
        self._files = files
        self._thread = Background(
            "kept-outputs",
            self._run,
            first_s=_EVERY_S,
            trouble="outputs could not be stored as data sets",
            trouble_s=_EVERY_S,
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close()

    def make(self) -> None:
        """Store the pending outputs of ended jobs."""
        pending = select(*(col(getattr(Job, name)) for name in _EndedJob._fields)).where(
            col(Job.keep_state) == "pending", col(Job.state).in_([*TERMINAL])
        )
        with self._db.read() as conn:
            found = [
                _EndedJob._make(row) for row in conn.execute(pending.order_by(col(Job.finished_at)).limit(_AT_ONCE))
            ]
        for job in found:
            if self._thread.stopping:
                return
            try:
                self._make_all(job)
            except RuntimeFault as fault:
                log.info("the outputs of job %s will be stored later: %s", job.id, fault)

    def _make_all(self, job: _EndedJob) -> None:
        wanted = job.spec["keep"].items() if job.state is JobState.SUCCEEDED else ()
        told = []
        for name, path in wanted:
            try:
                told.append(self._make_one(job, name, path))
            except RuntimeFault:
                raise  # the host does not answer yet: try again later
            except SchedulearnError as error:
                told.append(partial(_tell, job=job, message=f"{name} was not created: {error.detail}", now=time.time()))

        def change(conn: Connection) -> None:
            for each in told:
                each(conn)
            conn.execute(update(Job).where(col(Job.id) == job.id).values(keep_state="done"))

        self._db.write(change)

    def _make_one(self, job: _EndedJob, name: str, path: str) -> Callable[[Connection], object]:
        """Store the content, and return the change that records the version."""
        manifest = manifest_of(self._items(job.id, path), self._store.max_bytes, self._store.max_files)
        self._store.missing(manifest)
        digest = self._store.keep(manifest)
        with self._db.read() as conn:
            versions.check_may_change(conn, name, job.user, is_admin=False)
        made = _version(job, name, digest, manifest, time.time())
        return partial(_add, job=job, made=made, most=self._store.per_user)

    def _items(self, job_id: str, path: str) -> Iterator[ManifestEntry]:
        """Yield the files, folders and links below `path` in the outputs.

        Outputs of all hosts are merged; of files with the same path, the first host's wins."""
        where = f"{OUTPUTS}/{path}".rstrip("/")
        found = self._files.listing(job_id, where, host=None, after="", limit=0)
        if found.away:
            raise RuntimeFault(f"{', '.join(found.away)} may have outputs of job {job_id}, but does not answer")
        if found.of_file:
            yield self._file(job_id, where, found.hosts[0])
            return
        taken: set[str] = set()
        for host in found.hosts:
            opened = self._files.open(job_id, where, host=host)
            try:
                for item in self._folder(opened.pack()):
                    if item.path not in taken:
                        taken.add(item.path)
                        yield item
            except tarfile.TarError as error:
                raise RuntimeFault(
                    f"the outputs of job {job_id} on {host} were truncated during the transfer: {error}"
                ) from error
            finally:
                opened.close()

    def _file(self, job_id: str, path: str, host: str) -> ManifestEntry:
        opened = self._files.open(job_id, path, host=host)
        try:
            if opened.entry.kind is not FileKind.FILE:
                raise RuntimeFault(f"{path} of job {job_id} changed while it was read")
            blob = self._store.add(opened.read(0, opened.entry.bytes))
            return ManifestEntry(path.rpartition("/")[2], Kind.FILE, blob.size, blob=blob.name)
        finally:
            opened.close()

    def _folder(self, archive: Iterator[bytes]) -> Iterator[ManifestEntry]:
        with reading(archive) as tar:
            for member in tar:
                path = member.name.removeprefix("./").strip("/")
                if path in ("", "."):
                    continue
                if member.isdir():
                    yield ManifestEntry(path, Kind.FOLDER)
                elif member.issym() and link_stays_inside(path, member.linkname):
                    yield ManifestEntry(path, Kind.LINK, target=member.linkname)
                elif member.isreg() and (content := tar.extractfile(member)) is not None:
                    blob = self._store.add(iter(partial(content.read, 1 << 20), b""))
                    yield ManifestEntry(path, Kind.FILE, blob.size, bool(member.mode & 0o111), blob=blob.name)

    def _run(self) -> float:
        self.make()
        return _EVERY_S


def _version(job: _EndedJob, name: str, digest: str, manifest: Manifest, now: float) -> Version:
    return Version(name, 0, digest, manifest.bytes, manifest.files, job.user, job.id, now)


def _add(conn: Connection, *, job: _EndedJob, made: Version, most: int) -> None:
    """Record a version, or an event if the user's quota forbids it.

    `most`: the quota, in bytes."""
    try:
        versions.check_share(conn, made.user, made.digest, made.bytes, most)
    except QuotaError as error:
        _tell(conn, job=job, message=f"{made.name} was not created: {error.detail}", now=made.created_at)
        return
    versions.add(conn, made)


def _tell(conn: Connection, *, job: _EndedJob, message: str, now: float) -> None:
    repository.add_event(conn, now, "job.not_kept", code="not_kept", message=message, job_id=job.id)
