"""Synchronous client of the API, for scripts and the command line.

It returns the API's JSON unchanged; `schedulearn.api.answers` describes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any

from schedulearn.api.client import calls
from schedulearn.api.client.asked.base import Steps
from schedulearn.api.client.asked.every import EveryCall
from schedulearn.api.client.data.client import DataClient
from schedulearn.api.client.errors import ApiError, ClientError, UnreachableError
from schedulearn.api.client.files import FilesClient
from schedulearn.api.client.job import Job, LogPiece, resubmission
from schedulearn.api.client.progress import Looks, ProgressLine
from schedulearn.api.client.transport import Event, Json, check, part

__all__ = ["ApiError", "Client", "ClientError", "Event", "Job", "Json", "LogPiece", "UnreachableError"]

PAGE = 1000
_CODE_PIECE = 1 << 18
_CODE_S = 300.0  # timeout between two pieces, and for the response: other uploads may come first


class Client(FilesClient, DataClient, EveryCall[Json, list[Json], None, str]):
    """Synchronous client of one service.

    `url`, `token` and `ca` default to SCHEDULEARN_URL, SCHEDULEARN_TOKEN and SCHEDULEARN_CA. `ca` is a file with the
    certificate to trust, or its fingerprint. Threads may share a client.

    Every method raises UnreachableError if nothing answers and ApiError if the service refuses.
    """

    _reached = False

    def _call(self, call: calls.Call) -> Json:
        return self._object(call.method, call.path, params=call.params, json=call.json, key=call.key)

    def _steps(self, steps: Steps) -> Json:
        try:
            call = next(steps)
            while True:
                call = steps.send(self._call(call))
        except StopIteration as end:
            result: Json = end.value
            return result

    # --- jobs ---

    def submit(
        self,
        spec: Mapping[str, Any],
        idempotency_key: str | None = None,
        *,
        env_from: str | Job | None = None,
        refuse_late: bool = False,
    ) -> Job:
        """Submit a job, and return it as stored.

        A request whose response was lost is sent again. The key keeps that from creating a second job. `env_from`: a
        job that runs the same, from which masked values are taken. `refuse_late`: store nothing if the job is expected
        to end after its deadline."""
        return Job(self._call(calls.submit(spec, idempotency_key, env_from, refuse_late)))

    def submit_batch(self, specs: Sequence[Mapping[str, Any]], idempotency_key: str | None = None) -> Json:
        """Submit all jobs or none, and return `{"items": [...]}`."""
        return self._call(calls.submit_batch(specs, idempotency_key))

    def resubmit(self, job: str | Job, **changes: Any) -> Job:
        """Submit a job again, with keys changed: `resubmit(job, priority=80)`; None removes a key."""
        made, hidden = resubmission(self.spec(job), changes, datetime.now(UTC))
        return self.submit(made, env_from=job if hidden else None)

    def spec(self, job: str | Job) -> Json:
        """Return the job as its user would write it: the five required keys, and what differs from the defaults.

        Values of variables are hidden."""
        return self._call(calls.spec(job))

    def jobs(
        self,
        states: Iterable[str] = (),
        *,
        user: str | None = None,
        q: str | None = None,
        labels: Mapping[str, str] | None = None,
        sweep: str | None = None,
        ended_since: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Json:
        """Return one page, newest first: `{"items", "next", "counts"}`.

        `q`: part of a name or id. `labels`: labels that a job must have. `sweep`: id of the sweep that the jobs are
        runs of. `ended_since`: leave out jobs that had ended before this instant."""
        return self._call(calls.jobs(states, user, q, labels, sweep, ended_since, cursor, limit))

    def all_jobs(
        self,
        states: Iterable[str] = (),
        *,
        user: str | None = None,
        q: str | None = None,
        labels: Mapping[str, str] | None = None,
        sweep: str | None = None,
        ended_since: str | None = None,
        limit: int | None = None,
    ) -> Json:
        """Return the same as `jobs`, with the items of all pages, or the first `limit` of them."""
        items: list[Json] = []
        states, cursor = list(states), None
        while True:
            page = self.jobs(
                states, user=user, q=q, labels=labels, sweep=sweep, ended_since=ended_since, cursor=cursor,
                limit=PAGE if limit is None else min(PAGE, limit - len(items)),
            )  # fmt: skip
            items += page["items"]
            cursor = page["next"]
            if cursor is None or len(items) == limit:
                return {**page, "items": items}

    def show(self, job: str | Job) -> Job:
        """Return the job as it is now, with its attempts. Also known as `job`."""
        return Job(self._call(calls.job(job)))

    job = show

    def wait(
        self,
        job: str | Job,
        timeout_s: float | None = None,
        *,
        progress: bool = False,
        on_look: Callable[[Job], None] = lambda job: None,
    ) -> Job:
        """Wait until the job has ended, in whatever state, and return it.

        It survives restarts of the service. Raises TimeoutError after `timeout_s`; the job goes on. `progress` shows a
        line that is kept up to date, in a notebook too. `on_look` gets the job after each successful poll."""
        line = ProgressLine() if progress else None
        looks = Looks(timeout_s, self._reached)
        while True:
            try:
                found = self.show(job)
            except UnreachableError as error:
                time.sleep(looks.after_loss(error))
                continue
            self._reached = True
            on_look(found)
            if line is not None:
                line.show(found)
            if found.ended:
                return found
            time.sleep(looks.after(found))

    def cancel(self, job: str | Job) -> Job:
        """Cancel a job; a second call changes nothing."""
        return Job(self._call(calls.cancel(job)))

    def purge(self, job: str | Job) -> Json:
        """Delete a job that has ended, with its log, checkpoints and measurements: `{"id", "name"}`.

        Its usage stays counted."""
        return self._call(calls.purge(job))

    # --- code ---

    def has_code(self, digest: str) -> bool:
        try:
            self._object("GET", f"code/{part(digest)}")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def send_code(self, archive: IO[bytes], digest: str | None = None) -> Json:
        """Store a tar file, and return `{"digest", "bytes"}`.

        `digest`: the digest of the archive as the service packs it, if known."""
        query = {"digest": digest} if digest else {}
        pieces = iter(partial(archive.read, _CODE_PIECE), b"")
        headers = {"content-type": "application/x-tar"}
        return self._object("POST", "code", params=query, content=pieces, headers=headers, timeout=_CODE_S)

    def job_events(self, job: str | Job, after: int = 0, limit: int = 500) -> Json:
        return self._call(calls.job_events(job, after, limit))

    def logs(self, job: str | Job, offset: int = 0, *, timestamps: bool = False) -> Iterator[str]:
        """Yield the log as it is now, in pieces.

        `timestamps`: each line begins with its time in UTC."""
        params = calls.logs_params(offset, timestamps)
        import httpx

        try:
            with self._http.stream("GET", calls.logs_path(job), params=params) as response:
                check(response, self.url)
                yield from response.iter_text()
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def follow_logs(
        self, job: str | Job, offset: int = 0, on_gap: Callable[[str], None] = lambda why: None
    ) -> Iterator[LogPiece]:
        """Yield pieces of the log as they come, until the job has ended.

        It survives restarts of the service, and repeats no byte. `on_gap` is called when the service has been gone for
        a while. Raises UnreachableError if it is gone for `PATIENCE_S`.
        """
        for event in self._follow(calls.logs_path(job), offset, on_gap):
            if event.name == "log":
                yield LogPiece.of(event.id, event.data)
            elif event.name == "end" and self._has_ended(job):
                return

    def _has_ended(self, job: str | Job) -> bool:
        """Return whether the job has ended. A service that stops ends its streams too: only the state tells."""
        try:
            return self.show(job).ended
        except UnreachableError:
            return False

    def events(self, after: int | None = None, limit: int = 200) -> Json:
        """Return the newest events, or those after an id; oldest first."""
        return self._call(calls.events(after, limit))

    def follow_events(self, after: int = 0, on_gap: Callable[[str], None] = lambda why: None) -> Iterator[Json]:
        """Yield all events after the event with this id, then new ones as they come, without end."""
        for event in self._follow("/api/v1/events", after, on_gap):
            yield event.data
