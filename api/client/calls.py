"""Calls of the client: requests, retries, resumed streams, and the endpoints of the core.

This is the client for asyncio. scripts/unasync.py makes `sync_calls.py` from it, without `async` and `await`.

Requests are tried again where that is safe, and streams resume. httpx is imported when a client is made, not before, so
`schedulearn serve` never loads it.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from schedulearn.api.client.errors import ApiError, ClientError, may_return
from schedulearn.api.client.job import Job, LogPiece, id_of, path_of, resubmission
from schedulearn.api.client.progress import PollIntervals, ProgressLine
from schedulearn.api.client.transport import (
    Event,
    Json,
    ResumedStream,
    below_api,
    check,
    checked_json,
    connection,
    limits,
    not_ours,
    part,
    unreachable,
    without_empty,
)

if TYPE_CHECKING:
    import httpx

PAGE = 1000
"""Items of one request for a whole list."""
RESET_S = 180.0
"""Timeout of a GPU reset: the service gives `nvidia-smi` two minutes."""


class AsyncTransport:
    """Requests to one service. A path is below /api/v1, unless it begins with "/"."""

    def __init__(
        self, url: str | None = None, token: str | None = None, *, timeout_s: float = 30.0, ca: str | None = None
    ) -> None:
        """`ca`: file with the certificate to trust, or its fingerprint, `sha256:...`."""
        import httpx

        self.url, options = connection(url, token, timeout_s, ca)
        self._http = httpx.AsyncClient(**options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _object(self, method: str, path: str, **options: Any) -> Json:
        answer = checked_json(await self._request(method, path, **options), self.url)
        if not isinstance(answer, dict):
            raise not_ours(self.url)
        return answer

    async def _list(self, method: str, path: str, **options: Any) -> list[Json]:
        answer = checked_json(await self._request(method, path, **options), self.url)
        if not isinstance(answer, list):
            raise not_ours(self.url)
        return answer

    async def _nothing(self, method: str, path: str, **options: Any) -> None:
        check(await self._request(method, path, **options), self.url)

    async def _text(self, path: str, **options: Any) -> str:
        response = await self._request("GET", path, **options)
        check(response, self.url)
        return response.text

    async def _pages(self, path: str, query: Json) -> list[Json]:
        """Return the responses of all pages of a list."""
        pages = [await self._object("GET", path, params=query)]
        while after := pages[-1]["next"]:
            pages.append(await self._object("GET", path, params={**query, "after": after}))
        return pages

    async def _request(
        self, method: str, path: str, *, key: str | None = None, again: bool = False, **options: Any
    ) -> httpx.Response:
        """Send a request. `again`: sending it twice has the same effect as once, as for GET or with a `key`."""
        import httpx

        path = below_api(path)
        headers = {**options.pop("headers", {}), **({"idempotency-key": key} if key else {})}
        try:
            try:
                return await self._http.request(method, path, headers=headers, **options)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError):
                if method != "GET" and not key and not again:
                    raise
                # The service hung up: a retry is safe.
                return await self._http.request(method, path, headers=headers, **options)
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error

    async def _follow(self, path: str, last_id: int, on_gap: Callable[[str], None]) -> AsyncIterator[Event]:
        """Yield server-sent events without end, resumed by id whenever the connection ends."""
        import httpx

        held = ResumedStream(self.url, last_id, on_gap)
        path = below_api(path)
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


class AsyncCalls(AsyncTransport):
    """Endpoints of the core: jobs, code, events, data, hosts, policies, past readings."""

    _reached = False

    # --- jobs ---

    async def submit(
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
        query = {} if env_from is None else {"env_from": id_of(env_from)}
        query |= {"refuse_late": "true"} if refuse_late else {}
        key = idempotency_key or uuid.uuid4().hex
        return Job(await self._object("POST", "jobs", params=query, json=dict(spec), key=key))

    async def submit_batch(self, specs: Sequence[Mapping[str, Any]], idempotency_key: str | None = None) -> Json:
        """Submit all jobs or none, and return `{"items": [...]}`."""
        key = idempotency_key or uuid.uuid4().hex
        return await self._object("POST", "jobs:batch", json=[dict(spec) for spec in specs], key=key)

    async def resubmit(self, job: str | Job, **changes: Any) -> Job:
        """Submit a job again, with keys changed: `resubmit(job, priority=80)`; None removes a key."""
        made, hidden = resubmission(await self.spec(job), changes, datetime.now(UTC))
        return await self.submit(made, env_from=job if hidden else None)

    async def spec(self, job: str | Job) -> Json:
        """Return the job as its user would write it: the five required keys, and what differs from the defaults.

        Values of variables are hidden."""
        return await self._object("GET", f"{path_of(job)}/spec")

    async def jobs(
        self,
        states: Iterable[str] = (),
        *,
        user: str | None = None,
        q: str | None = None,
        labels: Mapping[str, str] | None = None,
        sweep: str | None = None,
        schedule: str | None = None,
        ended_since: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Json:
        """Return one page, newest first: `{"items", "next", "counts"}`.

        `q`: part of a name or id. `labels`: labels that a job must have. `sweep`: id of the sweep that the jobs are
        runs of; `schedule` likewise. `ended_since`: leave out jobs that had ended before this instant."""
        label = [f"{name}={value}" for name, value in (labels or {}).items()]
        query = without_empty(
            state=list(states), user=user, q=q, label=label, sweep=sweep, schedule=schedule,
            ended_since=ended_since, cursor=cursor, limit=limit,
        )  # fmt: skip
        return await self._object("GET", "jobs", params=query)

    async def _pages_of_jobs(self, limit: int | None, **criteria: Any) -> AsyncIterator[Json]:
        """Yield pages of jobs, with at most `limit` items in all."""
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        cursor, shown = None, 0
        while True:
            wanted = PAGE if limit is None else min(PAGE, limit - shown)
            page = await self.jobs(**criteria, cursor=cursor, limit=wanted)
            yield page
            shown, cursor = shown + len(page["items"]), page["next"]
            if cursor is None or shown == limit:
                return

    async def show(self, job: str | Job) -> Job:
        """Return the job as it is now, with its attempts. Also known as `job`."""
        return Job(await self._object("GET", path_of(job)))

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

        It survives restarts of the service. Raises TimeoutError after `timeout_s`; the job goes on. `progress` shows a
        line that is kept up to date, in a notebook too. `on_look` gets the job after each successful poll."""
        line = ProgressLine() if progress else None
        looks = PollIntervals(timeout_s, self._reached)
        while True:
            try:
                found = await self.show(job)
            except ClientError as error:
                if not may_return(error):
                    raise
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
        return Job(await self._object("POST", f"{path_of(job)}/cancel"))

    async def hold(self, job: str | Job) -> Job:
        """Hold a waiting job: it does not start before its release."""
        return Job(await self._object("POST", f"{path_of(job)}/hold"))

    async def release(self, job: str | Job) -> Job:
        """Release a held job."""
        return Job(await self._object("POST", f"{path_of(job)}/release"))

    async def pause(self, job: str | Job) -> Job:
        """Pause an elastic job: it saves a checkpoint and gives its GPUs back. A waiting job is held."""
        return Job(await self._object("POST", f"{path_of(job)}/pause"))

    async def resume(self, job: str | Job) -> Job:
        """Resume a paused job: it may start again from its checkpoint."""
        return Job(await self._object("POST", f"{path_of(job)}/resume"))

    async def purge(self, job: str | Job) -> Json:
        """Delete a job that has ended, with its log, checkpoints and measurements: `{"id", "name"}`.

        Its usage stays counted."""
        return await self._object("POST", f"{path_of(job)}/purge")

    async def set_priority(self, job_id: str | Job, priority: int) -> Json:
        return await self._object("PATCH", path_of(job_id), json={"priority": priority})

    async def profile(self, job_id: str | Job) -> Json:
        """Return a job's measurements, and what follows from them."""
        return await self._object("GET", f"{path_of(job_id)}/profile")

    async def processes(self, job_id: str | Job, rank: int | None = None) -> Json:
        """Return the processes in a container of a job; without a rank, in the first container."""
        query = {} if rank is None else {"rank": rank}
        return await self._object("GET", f"{path_of(job_id)}/processes", params=query)

    async def api_description(self) -> Json:
        """OpenAPI document of the service: every route and schema."""
        return await self._object("GET", "openapi.json")

    async def code_limits(self) -> Json:
        """Return the limits of code that may be sent, and the image for jobs that name none."""
        return await self._object("GET", "code")

    async def files(self, job_id: str | Job, path: str = "", *, host: str | None = None) -> Json:
        """Return all that is directly in a folder: `{"path", "items", "hosts", "away"}`.

        Without a path: the job's folders."""
        query = {"path": path.strip("/"), "limit": PAGE, **without_empty(host=host)}
        pages = await self._pages(f"{path_of(job_id)}/files", query)
        items = [item for page in pages for item in page["items"]]
        return {**{key: pages[-1][key] for key in ("path", "hosts", "away")}, "items": items}

    async def has_code(self, digest: str) -> bool:
        try:
            await self._object("GET", f"code/{part(digest)}")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    # --- logs and events ---

    async def logs(self, job: str | Job, offset: int = 0, *, timestamps: bool = False) -> AsyncIterator[str]:
        """Yield the log as it is now, in pieces.

        `timestamps`: each line begins with its time in UTC."""
        import httpx

        path, query = below_api(f"{path_of(job)}/logs"), {"offset": offset, **without_empty(timestamps=timestamps)}
        try:
            async with self._http.stream("GET", path, params=query) as response:
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

        It survives restarts of the service, and repeats no byte. `on_gap` is called when the service has been gone for
        a while. Raises UnreachableError if it is gone for `PATIENCE_S`.
        """
        async for event in self._follow(f"{path_of(job)}/logs", offset, on_gap):
            if event.name == "log":
                yield LogPiece.of(event.id, event.data)
            elif event.name == "end" and await self._has_ended(job):
                return

    async def _has_ended(self, job: str | Job) -> bool:
        """Return whether the job has ended. A service that stops ends its streams too: only the state tells."""
        try:
            return (await self.show(job)).ended
        except ClientError as error:
            if not may_return(error):
                raise
            return False

    async def job_events(self, job: str | Job, after: int = 0, limit: int = 500) -> Json:
        return await self._object("GET", f"{path_of(job)}/events", params={"after": after, "limit": limit})

    async def events(self, after: int | None = None, limit: int = 200) -> Json:
        """Return the newest events, or those after an id; oldest first."""
        query = {"limit": limit, **({} if after is None else {"after": after})}
        return await self._object("GET", "events", params=query)

    async def follow_events(
        self, after: int = 0, on_gap: Callable[[str], None] = lambda why: None
    ) -> AsyncIterator[Json]:
        """Yield all events after the event with this id, then new ones as they come, without end."""
        async for event in self._follow("events", after, on_gap):
            yield event.data

    # --- data sets ---

    async def data(self) -> list[Json]:
        """Return all data sets and models, each with its newest version."""
        return [item for page in await self._pages("data", {"limit": PAGE}) for item in page["items"]]

    async def data_versions(self, name: str) -> list[Json]:
        """Return the versions of a data set, newest first."""
        found: list[Json] = (await self._object("GET", f"data/{part(name)}"))["items"]
        return found

    async def remove_data(self, name: str, version: int | None = None) -> list[Json]:
        """Remove one version, or all of them, and return what was removed.

        A job that has not ended keeps the data it needs."""
        query = {} if version is None else {"version": version}
        found: list[Json] = (await self._object("DELETE", f"data/{part(name)}", params=query))["items"]
        return found

    # --- hosts, GPUs, policies, the service ---

    async def health(self) -> Json:
        return await self._object("GET", "/healthz")

    async def hosts(self) -> list[Json]:
        return await self._list("GET", "hosts")

    async def host(self, host_id: str) -> Json:
        return await self._object("GET", f"hosts/{part(host_id)}")

    async def cordon(self, host_id: str) -> Json:
        return await self._object("POST", f"hosts/{part(host_id)}/cordon")

    async def uncordon(self, host_id: str) -> Json:
        return await self._object("POST", f"hosts/{part(host_id)}/uncordon")

    async def label_host(self, host_id: str, labels: Mapping[str, str | None]) -> Json:
        """Set labels of a host; None removes one. Other labels stay."""
        return await self._object("PATCH", f"hosts/{part(host_id)}/labels", json={"labels": dict(labels)})

    async def cordon_gpu(self, host_id: str, gpu: str) -> Json:
        """Cordon a GPU, by index or UUID: no new jobs start on it."""
        return await self._object("POST", f"hosts/{part(host_id)}/gpus/{part(gpu)}/cordon")

    async def drain_gpu(self, host_id: str, gpu: str, deadline_s: float) -> Json:
        return await self._object(
            "POST", f"hosts/{part(host_id)}/gpus/{part(gpu)}/drain", json={"deadline_s": deadline_s}
        )

    async def reset_gpu(self, host_id: str, gpu: str) -> Json:
        """Reset an idle GPU, by index or UUID, and wait for it."""
        return await self._object("POST", f"hosts/{part(host_id)}/gpus/{part(gpu)}/reset", timeout=RESET_S)

    async def return_gpu(self, host_id: str, gpu: str) -> Json:
        """Return a cordoned or unhealthy GPU, by index or UUID, to service."""
        return await self._object("POST", f"hosts/{part(host_id)}/gpus/{part(gpu)}/return")

    async def data_sets(self) -> list[Json]:
        """Return the operator's folders that jobs may name in `mounts`."""
        return await self._list("GET", "data-sets")

    async def disk(self, host_id: str) -> Json:
        """Return what uses disk space on a host."""
        return await self._object("GET", f"hosts/{part(host_id)}/disk")

    async def fetch_image(self, host_id: str, image: str) -> None:
        """Start to fetch an image on a host."""
        await self._nothing("POST", f"hosts/{part(host_id)}/images", json={"image": image})

    async def add_host(self, spec: Mapping[str, Any]) -> Json:
        return await self._object("POST", "hosts", json=dict(spec))

    async def remove_host(self, host_id: str, *, force: bool = False) -> None:
        await self._nothing("DELETE", f"hosts/{part(host_id)}", params={"force": force})

    async def drain(self, host_id: str, deadline_s: float) -> Json:
        return await self._object("POST", f"hosts/{part(host_id)}/drain", json={"deadline_s": deadline_s})

    async def gpus(self) -> list[Json]:
        return await self._list("GET", "gpus")

    async def cluster(self) -> Json:
        """Return totals, and the cluster's utility."""
        return await self._object("GET", "cluster")

    async def policy(self) -> Json:
        return await self._object("GET", "policy")

    async def set_policy(
        self, algorithm: str, metric: str = "default", params: Mapping[str, Any] | None = None
    ) -> Json:
        body = {"algorithm": algorithm, "metric": metric, "params": dict(params or {})}
        return await self._object("PUT", "policy", json=body)

    async def expect(self, spec: Mapping[str, Any]) -> Json:
        """Predict when such a job would start and end if it were submitted now. Stores nothing."""
        return await self._object("POST", "jobs:preview", json=dict(spec))

    async def preview(
        self, algorithm: str, metric: str = "default", params: Mapping[str, Any] | None = None, hours: int = 24
    ) -> Json:
        """Predict what another policy would do now and within the next `hours`. Changes nothing."""
        query = {"algorithm": algorithm, "metric": metric, "params": json.dumps(dict(params or {})), "hours": hours}
        return await self._object("GET", "policy/preview", params=query)

    async def compare_policies(self, hours: int = 24) -> Json:
        """Predict the results of every policy with the present jobs, within the next `hours`.

        Changes nothing."""
        return await self._object("GET", "policy/comparison", params={"hours": hours})

    async def metrics(self) -> str:
        """Return the metrics in Prometheus format."""
        return await self._text("/metrics")

    # --- past readings and events ---

    async def host_telemetry(self, host_id: str, since: str | None = None, until: str | None = None) -> Json:
        """Return readings of a host's GPUs.

        Times are ISO 8601; the default is the last ten minutes."""
        return await self._object("GET", f"hosts/{part(host_id)}/telemetry", params=_span("from", since, "to", until))

    async def job_telemetry(self, job_id: str, since: str | None = None, until: str | None = None) -> Json:
        """Return readings of the GPUs that a job held, while it held them."""
        return await self._object("GET", f"jobs/{part(job_id)}/telemetry", params=_span("from", since, "to", until))

    async def resources(self) -> list[Json]:
        """Return each running container's current use of processors, memory, network and disk."""
        return await self._list("GET", "resources")

    async def utility(self, since: str | None = None, until: str | None = None) -> Json:
        """Return the cluster's utility and its thresholds over time; the last day by default."""
        return await self._object("GET", "cluster/utility", params=_span("from", since, "to", until))

    async def timeline(self, since: str | None = None, until: str | None = None, limit: int = 5000) -> Json:
        """Return which jobs held which GPUs when; the last day by default."""
        return await self._object("GET", "timeline", params={**_span("since", since, "until", until), "limit": limit})

    async def search_events(self, q: str = "", *, kinds: Iterable[str] = (), limit: int = 100, **given: Any) -> Json:
        """Return events that match all criteria, newest first.

        `given`: `job`, `host`, `actor`, `about`, `since`, `until`, `before`. The search goes on before `next_before`.
        """
        return await self._object("GET", "events:search", params={"q": q, "kind": list(kinds), "limit": limit, **given})

    async def replay(self, limit: int = 1000) -> Json:
        """Return the last jobs that succeeded, as a trace for `schedulearn simulate`, and the current `hosts`."""
        return await self._object("GET", "policy/replay", params={"limit": limit})

    async def policy_history(self, limit: int = 200) -> list[Json]:
        """Return which policy was in force since when, oldest first."""
        return await self._list("GET", "policy/history", params={"limit": limit})


def _span(first: str, since: str | None, second: str, until: str | None) -> dict[str, str]:
    return {name: at for name, at in ((first, since), (second, until)) if at is not None}
