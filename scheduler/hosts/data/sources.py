"""Transfer of shared data to a host.

A version of a data set comes from the service. Outputs of an earlier job come from the hosts on which it ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from schedulearn.scheduler.core.needs import job_of_key
from schedulearn.scheduler.data.store import DataStore
from schedulearn.scheduler.errors import ImageUnavailable, NotFoundError, RuntimeFault
from schedulearn.scheduler.hosts.agent import HostAgent
from schedulearn.scheduler.hosts.transfer import transfer_all
from schedulearn.scheduler.runtimes.contract import FetchProgress, Runtime
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import Database
from schedulearn.scheduler.store.moved_outputs import hosts_with_outputs

PART_BYTES, PART_FILES = 64 << 20, 2000
"""Maximum size of one part of a copy. A larger file is its own part. An interrupted copy resumes with that part."""


class HostData:
    """The `DataSource` of one host."""

    def __init__(
        self, host_id: str, db: Database, store: DataStore, agents: Callable[[], Mapping[str, HostAgent]]
    ) -> None:
        self._host_id = host_id
        self._db = db
        self._store = store
        self._agents = agents

    def is_there(self, key: str, runtime: Runtime) -> bool:
        """Return whether the data is here.

        Outputs of a job that ran only on this host are linked, not copied."""
        if runtime.data.has(key):
            return True
        job_id = job_of_key(key)
        if job_id is None or self._homes(job_id) != [self._host_id] or runtime.outputs.changed_at(job_id) is None:
            return False
        runtime.data.link(key, job_id)
        return runtime.data.has(key)

    def fetch(self, key: str, runtime: Runtime) -> Iterator[FetchProgress]:
        job_id = job_of_key(key)
        if job_id is None:
            yield from self._bring_version(key, runtime)
        else:
            yield from self._bring_outputs(key, job_id, runtime)
        if not runtime.data.has(key):
            raise RuntimeFault(f"{key[:19]} was copied, but is missing afterwards")

    def _bring_version(self, digest: str, runtime: Runtime) -> Iterator[FetchProgress]:
        try:
            manifest = self._store.manifest(digest)
        except NotFoundError as error:
            raise ImageUnavailable(f"{error.detail}: push it again") from error
        begun = runtime.data.begun(digest)
        left = [part for part in manifest.parts(PART_BYTES, PART_FILES) if part.digest not in begun]
        names = [part.digest for part in left]
        yield from transfer_all(
            [self._store.pack(part) for part in left],
            lambda archives: runtime.data.load(digest, archives, names),
            "copying from the service",
            manifest.bytes,
            manifest.bytes - sum(part.bytes for part in left),
        )

    def _bring_outputs(self, key: str, job_id: str, runtime: Runtime) -> Iterator[FetchProgress]:
        """Copy a job's outputs from all hosts that have some.

        If several hosts have a file of the same name, the first host's file wins."""
        homes = self._homes(job_id)
        agents = self._agents()
        for home in homes:
            if home not in agents or agents[home].status.observation is None:
                raise RuntimeFault(f"{home} has outputs of job {job_id}, but does not answer")
        gone = [home for home in homes if agents[home].runtime.outputs.changed_at(job_id) is None]
        if homes and len(gone) == len(homes):
            raise ImageUnavailable(
                f"the outputs of job {job_id} are no longer there: they are kept for a limited time after its end "
                "(settings keep_outputs, output_room)"
            )
        what = f"copying the outputs of job {job_id}"
        found = [agents[home].runtime.outputs.save(job_id) for home in reversed(homes) if home not in gone]
        yield from transfer_all(found, lambda archives: runtime.data.load(key, archives), what)

    def _homes(self, job_id: str) -> list[str]:
        """Return the hosts with outputs of a job.

        Raises ImageUnavailable if the job was deleted."""
        with self._db.read() as conn:
            if job_id not in repository.job_states(conn, {job_id}):
                raise ImageUnavailable(f"job {job_id} was deleted, and its outputs with it")
            return hosts_with_outputs(conn, job_id)
