"""Asynchronous client of the API, with the methods of `Client`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Self

import httpx

from schedulearn.api.client import calls
from schedulearn.api.client.asked.base import Steps
from schedulearn.api.client.asked.every import EveryCall
from schedulearn.api.client.client import PAGE, Client
from schedulearn.api.client.data.folder import PushProgress
from schedulearn.api.client.errors import ApiError, UnreachableError
from schedulearn.api.client.files import Progress
from schedulearn.api.client.job import Job, LogPiece, resubmission
from schedulearn.api.client.progress import Looks, ProgressLine
from schedulearn.api.client.transport import (
    Event,
    Json,
    ResumedStream,
    as_list,
    as_object,
    as_text,
    below_api,
    check,
    connection,
    limits,
    part,
    unreachable,
)


class AsyncClient(
    EveryCall[
        Coroutine[Any, Any, Json], Coroutine[Any, Any, list[Json]], Coroutine[Any, Any, None], Coroutine[Any, Any, str]
    ]
):
    """Asynchronous client of one service.

    `url`, `token` and `ca` default to SCHEDULEARN_URL, SCHEDULEARN_TOKEN and SCHEDULEARN_CA. `ca` is a file with the
    certificate to trust, or its fingerprint. Tasks of one event loop may share a client. `Client` describes the methods
    of the same names. Methods that read or write local files do so in threads, which also call `on_progress`.

    Every method raises UnreachableError if nothing answers and ApiError if the service refuses.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout_s: float = 30.0, ca: str | None = None
    ) -> None:
        self.url, options = connection(url, token, timeout_s, ca)
        self._in_threads = partial(Client, url, token, timeout_s=timeout_s, ca=ca)
        self._http = httpx.AsyncClient(**options)
        self._reached = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def submit(
        self,
        spec: Mapping[str, Any],
        idempotency_key: str | None = None,
        *,
        env_from: str | Job | None = None,
        refuse_late: bool = False,
    ) -> Job:
        """Submit a job, and return it as stored."""
        return Job(await self._call(calls.submit(spec, idempotency_key, env_from, refuse_late)))

    async def submit_batch(self, specs: Sequence[Mapping[str, Any]], idempotency_key: str | None = None) -> Json:
        """Submit all jobs or none, and return `{"items": [...]}`."""
        return await self._call(calls.submit_batch(specs, idempotency_key))

    async def resubmit(self, job: str | Job, **changes: Any) -> Job:
        """Submit a job again, with keys changed; None removes a key."""
        made, hidden = resubmission(await self.spec(job), changes, datetime.now(UTC))
        return await self.submit(made, env_from=job if hidden else None)

    async def spec(self, job: str | Job) -> Json:
        """Return the job as its user would write it."""
        return await self._call(calls.spec(job))

    async def jobs(
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
        """Return one page, newest first: `{"items", "next", "counts"}`."""
        return await self._call(calls.jobs(states, user, q, labels, sweep, ended_since, cursor, limit))

    async def all_jobs(
        self,
        states: Iterable[str] = (),
        *,
        user: str | None = None,
        q: str | None = None,
        labels: Mapping[str, str] | None = None,
        sweep: str | None = None,
        ended_since: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Job]:
        """Yield all jobs, or the first `limit`, newest first; pages are fetched as needed."""
        states, cursor, shown = list(states), None, 0
        while True:
            page = await self.jobs(
                states, user=user, q=q, labels=labels, sweep=sweep, ended_since=ended_since, cursor=cursor,
                limit=PAGE if limit is None else min(PAGE, limit - shown),
            )  # fmt: skip
            for item in page["items"]:
                yield Job(item)
            shown, cursor = shown + len(page["items"]), page["next"]
            if cursor is None or shown == limit:
                return

    async def show(self, job: str | Job) -> Job:
        """Return the job as it is now, with its attempts."""
        return Job(await self._call(calls.job(job)))

    job = show

    async def wait(
        self,
        job: str | Job,
        timeout_s: float | None = None,
        *,
        progress: bool = False,
        on_look: Callable[[Job], None] = lambda job: None,
    ) -> Job:
        """Wait until the job has ended, in whatever state, and return it.

        Raises TimeoutError after `timeout_s`; the job goes on."""
        line = ProgressLine() if progress else None
        looks = Looks(timeout_s, self._reached)
        while True:
            try:
                found = await self.show(job)
            except UnreachableError as error:
                await asyncio.sleep(looks.after_loss(error))
                continue
            self._reached = True
            on_look(found)
            if line is not None:
                line.show(found)
            if found.ended:
                return found
            await asyncio.sleep(looks.after(found))

    async def cancel(self, job: str | Job) -> Job:
        """Cancel a job; a second call changes nothing."""
        return Job(await self._call(calls.cancel(job)))

    async def purge(self, job: str | Job) -> Json:
        """Delete a job that has ended, with its log, checkpoints and measurements."""
        return await self._call(calls.purge(job))

    async def logs(self, job: str | Job, offset: int = 0, *, timestamps: bool = False) -> AsyncIterator[str]:
        """Yield the log as it is now, in pieces.

        `timestamps`: each line begins with its time in UTC."""
        params = calls.logs_params(offset, timestamps)
        try:
            async with self._http.stream("GET", calls.logs_path(job), params=params) as response:
                if not response.is_success:
                    await response.aread()
                check(response, self.url)
                async for piece in response.aiter_text():
                    yield piece
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error

    async def follow_logs(
        self, job: str | Job, offset: int = 0, on_gap: Callable[[str], None] = lambda why: None
    ) -> AsyncIterator[LogPiece]:
        """Yield pieces of the log as they come, until the job has ended.

        It survives restarts of the service, and repeats no byte."""
        async for event in self._follow(calls.logs_path(job), offset, on_gap):
            if event.name == "log":
                yield LogPiece.of(event.id, event.data)
            elif event.name == "end" and await self._has_ended(job):
                return

    async def events(self, after: int | None = None, limit: int = 200) -> Json:
        """Return the newest events, or those after an id; oldest first."""
        return await self._call(calls.events(after, limit))

    async def job_events(self, job: str | Job, after: int = 0, limit: int = 500) -> Json:
        return await self._call(calls.job_events(job, after, limit))

    async def follow_events(
        self, after: int = 0, on_gap: Callable[[str], None] = lambda why: None
    ) -> AsyncIterator[Json]:
        """Yield all events after the event with this id, then new ones as they come, without end."""
        async for event in self._follow("/api/v1/events", after, on_gap):
            yield event.data

    async def data(self) -> list[Json]:
        """Return all data sets and models, each with its newest version."""
        items: list[Json] = []
        after: str | None = ""
        while after is not None:
            page = await self._call(calls.data(after))
            items += page["items"]
            after = page["next"]
        return items

    async def data_versions(self, name: str) -> list[Json]:
        """Return the versions of a data set, newest first."""
        found: list[Json] = (await self._call(calls.data_versions(name)))["items"]
        return found

    async def remove_data(self, name: str, version: int | None = None) -> list[Json]:
        """Remove one version, or all of them, and return what was removed."""
        found: list[Json] = (await self._call(calls.remove_data(name, version)))["items"]
        return found

    async def push_data(
        self,
        name: str,
        folder: str | os.PathLike[str],
        *,
        on_progress: PushProgress = lambda what, done, total: None,
        on_left_out: Callable[[str], None] = lambda name: None,
    ) -> Json:
        """Make a folder the newest version of a data set, and return that version."""

        def push() -> Json:
            with self._in_threads() as client:
                return client.push_data(name, folder, on_progress=on_progress, on_left_out=on_left_out)

        return await asyncio.to_thread(push)

    async def get_data(
        self,
        name: str,
        to: str | os.PathLike[str],
        version: int | None = None,
        *,
        on_progress: Callable[[int, int | None], None] = lambda done, total: None,
    ) -> Path:
        """Download a version, by default the newest, into the folder `to`, which must not exist yet."""

        def get() -> Path:
            with self._in_threads() as client:
                return client.get_data(name, to, version, on_progress=on_progress)

        return await asyncio.to_thread(get)

    async def has_code(self, digest: str) -> bool:
        try:
            await self._object("GET", f"code/{part(digest)}")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def send_code(self, archive: IO[bytes], digest: str | None = None) -> Json:
        """Store a tar file, and return `{"digest", "bytes"}`.

        `digest`: the digest of the archive as the service packs it, if known."""

        def send() -> Json:
            with self._in_threads() as client:
                return client.send_code(archive, digest)

        return await asyncio.to_thread(send)

    async def download(
        self,
        job_id: str,
        path: str,
        to: str | os.PathLike[str] = ".",
        *,
        host: str | None = None,
        on_progress: Progress = lambda done, total: None,
        on_left_out: Callable[[str], None] = lambda name: None,
    ) -> Path:
        """Download a file or a folder of a job, and return its local path.

        It is stored in the folder `to`, or under that name."""

        def get() -> Path:
            with self._in_threads() as client:
                return client.download(job_id, path, to, host=host, on_progress=on_progress, on_left_out=on_left_out)

        return await asyncio.to_thread(get)

    async def _has_ended(self, job: str | Job) -> bool:
        try:
            return (await self.show(job)).ended
        except UnreachableError:
            return False

    async def _call(self, call: calls.Call) -> Json:
        return await self._object(call.method, call.path, params=call.params, json=call.json, key=call.key)

    async def _steps(self, steps: Steps) -> Json:
        try:
            call = next(steps)
            while True:
                call = steps.send(await self._call(call))
        except StopIteration as end:
            result: Json = end.value
            return result

    async def _object(self, method: str, path: str, **options: Any) -> Json:
        return as_object(await self._request(method, below_api(path), **options), self.url)

    async def _list(self, method: str, path: str, **options: Any) -> list[Json]:
        return as_list(await self._request(method, below_api(path), **options), self.url)

    async def _nothing(self, method: str, path: str, **options: Any) -> None:
        check(await self._request(method, below_api(path), **options), self.url)

    async def _text(self, path: str, **options: Any) -> str:
        return as_text(await self._request("GET", below_api(path), **options), self.url)

    async def _request(self, method: str, path: str, *, key: str | None = None, **options: Any) -> httpx.Response:
        headers = {"idempotency-key": key} if key else {}
        try:
            try:
                return await self._http.request(method, path, headers=headers, **options)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                if method != "GET" and not key:
                    raise
                return await self._http.request(method, path, headers=headers, **options)
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error

    async def _follow(self, path: str, last_id: int, on_gap: Callable[[str], None]) -> AsyncIterator[Event]:
        held = ResumedStream(self.url, last_id, on_gap)
        while True:
            try:
                async with self._http.stream("GET", path, headers=held.headers, timeout=limits()) as response:
                    if not response.is_success:
                        await response.aread()
                    if held.opens(response):
                        async for chunk in response.aiter_bytes():
                            for event in held.feed(chunk):
                                yield event
            except httpx.TransportError as error:
                if not held.connected:
                    raise unreachable(self.url, error) from error
                held.failed(error)
            await asyncio.sleep(held.pause())
