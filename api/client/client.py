"""The API as methods, synchronous: what the command line is made of, and handy in a script.

Answers are the API's JSON as it is; `schedulearn.api.answers` describes it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any

from schedulearn.api.client import calls
from schedulearn.api.client.data.client import DataClient
from schedulearn.api.client.experiments import ExperimentCalls
from schedulearn.api.client.files import FilesClient
from schedulearn.api.client.job import Job, LogPiece, resubmission
from schedulearn.api.client.people import PeopleCalls
from schedulearn.api.client.progress import Looks, ProgressLine, PurgeTries
from schedulearn.api.client.transport import (
    ApiError,
    ClientError,
    Event,
    Json,
    UnreachableError,
    check,
    checked_json,
    part,
)
from schedulearn.api.client.webhooks import WebhookCalls

__all__ = ["ApiError", "Client", "ClientError", "Event", "Job", "Json", "LogPiece", "UnreachableError"]

PAGE = 1000
_CODE_PIECE = 1 << 18
_CODE_S = 300.0  # between two pieces, and for the answer: other uploads may come first


class Client(FilesClient, DataClient, PeopleCalls, ExperimentCalls, WebhookCalls):
    """One service. `url` and `token` default to SCHEDULEARN_URL and SCHEDULEARN_TOKEN. Threads may share it.

    Every method raises UnreachableError if nothing answers and ApiError if the service refuses.
    """

    _reached = False

    def _call(self, call: calls.Call) -> Json:
        return self._object(call.method, call.path, params=call.params, json=call.json, key=call.key)

    # --- jobs ---

    def submit(
        self,
        spec: Mapping[str, Any],
        idempotency_key: str | None = None,
        *,
        env_from: str | Job | None = None,
        refuse_late: bool = False,
    ) -> Job:
        """The job as stored. A lost answer is asked for again; the key keeps that from making a second job.
        `env_from`: a job that runs the same, whose values stand for masks. `refuse_late`: nothing is stored if it is
        expected to end after its deadline."""
        return Job(self._call(calls.submit(spec, idempotency_key, env_from, refuse_late)))

    def submit_batch(self, specs: Sequence[Mapping[str, Any]], idempotency_key: str | None = None) -> Json:
        """`{"items": [...]}`; all jobs or none."""
        return self._call(calls.submit_batch(specs, idempotency_key))

    def resubmit(self, job: str | Job, **changes: Any) -> Job:
        """Submits a job again, with keys changed: `resubmit(job, priority=80)`; None takes a key away."""
        made, hidden = resubmission(self.spec(job), changes, datetime.now(UTC))
        return self.submit(made, env_from=job if hidden else None)

    def spec(self, job: str | Job) -> Json:
        """The job as its user would write it: the five keys, and what differs from the defaults; values of variables
        are hidden."""
        return self._call(calls.spec(job))

    def jobs(
        self,
        states: Iterable[str] = (),
        *,
        user: str | None = None,
        q: str | None = None,
        labels: Mapping[str, str] | None = None,
        sweep: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Json:
        """One page, newest first: `{"items", "next", "counts"}`. `q`: part of a name or id. `labels`: those that a job
        must have. `sweep`: the id of the one that they are runs of."""
        return self._call(calls.jobs(states, user, q, labels, sweep, cursor, limit))

    def all_jobs(
        self,
        states: Iterable[str] = (),
        *,
        user: str | None = None,
        q: str | None = None,
        labels: Mapping[str, str] | None = None,
        sweep: str | None = None,
    ) -> Json:
        """The same, with the items of all pages."""
        states = list(states)
        page = self.jobs(states, user=user, q=q, labels=labels, sweep=sweep, limit=PAGE)
        items = page["items"]
        while page["next"]:
            page = self.jobs(states, user=user, q=q, labels=labels, sweep=sweep, cursor=page["next"], limit=PAGE)
            items += page["items"]
        return {**page, "items": items}

    def show(self, job: str | Job) -> Job:
        """The job as it stands now, with its attempts. Also known as `job`."""
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
        """The job once it has ended, however it did. Survives restarts of the service. Raises TimeoutError after
        `timeout_s`; the job goes on. `progress` shows a line that is kept up to date, in a notebook too; `on_look` gets
        the job each time that it is looked at."""
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
        """Ends a job; a second call changes nothing."""
        return Job(self._call(calls.cancel(job)))

    def purge(self, job: str | Job) -> Json:
        """Deletes a job that has ended, with its log, checkpoints and measurements: `{"id", "name"}`. What it used
        stays counted."""
        tries = PurgeTries()
        while True:
            try:
                return self._call(calls.purge(job))
            except ApiError as error:
                time.sleep(tries.after(error))

    # --- code ---

    def code_limits(self) -> Json:
        """What may be sent, and the image for those who name none."""
        return self._object("GET", "code")

    def has_code(self, digest: str) -> bool:
        try:
            self._object("GET", f"code/{part(digest)}")
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def send_code(self, archive: IO[bytes], digest: str | None = None) -> Json:
        """Stores a tar file: `{"digest", "bytes"}`. `digest`: that it has as the service packs it, if that is known."""
        query = {"digest": digest} if digest else {}
        pieces = iter(partial(archive.read, _CODE_PIECE), b"")
        headers = {"content-type": "application/x-tar"}
        return self._object("POST", "code", params=query, content=pieces, headers=headers, timeout=_CODE_S)

    # --- one job ---

    def set_priority(self, job_id: str, priority: int) -> Json:
        return self._object("PATCH", f"jobs/{part(job_id)}", json={"priority": priority})

    def profile(self, job_id: str) -> Json:
        """What was measured of a job, and what follows from it."""
        return self._object("GET", f"jobs/{part(job_id)}/profile")

    def processes(self, job_id: str, rank: int | None = None) -> Json:
        """What runs in a container of a job, the first one if no rank is given."""
        return self._object("GET", f"jobs/{part(job_id)}/processes", params={} if rank is None else {"rank": rank})

    def port_link(self, job_id: str, name: str) -> Json:
        """A link that opens a port of a job in a browser, once."""
        return self._object("POST", f"jobs/{part(job_id)}/ports/{part(name)}")

    def job_events(self, job: str | Job, after: int = 0, limit: int = 500) -> Json:
        return self._call(calls.job_events(job, after, limit))

    def logs(self, job: str | Job, offset: int = 0, *, timestamps: bool = False) -> Iterator[str]:
        """What there is now, in pieces. `timestamps`: each line begins with its time in UTC."""
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
        """Pieces as they come, until the job has ended; survives restarts of the service without a byte twice.

        `on_gap` is told when the service has gone for a while. Raises UnreachableError after `PATIENCE_S` of that.
        """
        for event in self._follow(calls.logs_path(job), offset, on_gap):
            if event.name == "log":
                yield LogPiece.of(event.id, event.data)
            elif event.name == "end" and self._has_ended(job):
                return

    def _has_ended(self, job: str | Job) -> bool:
        """A service that stops ends its streams too: only the job's state tells."""
        try:
            return self.show(job).ended
        except UnreachableError:
            return False

    # --- sweeps ---

    def start_sweep(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> Json:
        """The sweep as stored. A lost answer is asked for again; the key keeps that from making a second sweep."""
        return self._object("POST", "sweeps", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    def sweeps(
        self, states: Iterable[str] = (), *, user: str | None = None, cursor: str | None = None, limit: int = 20
    ) -> Json:
        """One page, newest first: `{"items", "next"}`."""
        given = {"state": list(states), "user": user, "cursor": cursor, "limit": limit}
        return self._object("GET", "sweeps", params={key: value for key, value in given.items() if value})

    def sweep(self, sweep_id: str, *, metric: str | None = None, goal: str | None = None) -> Json:
        """One sweep with its whole `table`. `metric` and `goal`: by what runs are compared, if not by its own."""
        given = {"metric": metric, "goal": goal}
        asked = {key: value for key, value in given.items() if value}
        pages = [self._object("GET", f"sweeps/{part(sweep_id)}", params=asked)]
        while (after := pages[-1]["next"]) is not None:
            pages.append(self._object("GET", f"sweeps/{part(sweep_id)}", params={**asked, "after": after}))
        logged = sorted({name for page in pages for name in page["logged"]})
        return {**pages[-1], "table": [run for page in pages for run in page["table"]], "logged": logged}

    def cancel_sweep(self, sweep_id: str) -> Json:
        return self._object("POST", f"sweeps/{part(sweep_id)}/cancel")

    def retry_sweep(self, sweep_id: str) -> Json:
        """Runs that did not succeed start again."""
        return self._object("POST", f"sweeps/{part(sweep_id)}/retry")

    # --- the rest of the cluster ---

    def health(self) -> Json:
        health: Json = checked_json(self._request("GET", "/healthz"), self.url)
        return health

    def hosts(self) -> list[Json]:
        return self._list("GET", "hosts")

    def host(self, host_id: str) -> Json:
        return self._object("GET", f"hosts/{part(host_id)}")

    def cordon(self, host_id: str) -> Json:
        return self._object("POST", f"hosts/{part(host_id)}/cordon")

    def uncordon(self, host_id: str) -> Json:
        return self._object("POST", f"hosts/{part(host_id)}/uncordon")

    def return_gpu(self, host_id: str, gpu: str) -> Json:
        """Gives an unhealthy GPU, by index or UUID, back to service."""
        return self._object("POST", f"hosts/{part(host_id)}/gpus/{part(gpu)}/return")

    def data_sets(self) -> list[Json]:
        """What jobs may name in `mounts`."""
        return self._list("GET", "data-sets")

    def disk(self, host_id: str) -> Json:
        """What takes room on a host."""
        return self._object("GET", f"hosts/{part(host_id)}/disk")

    def fetch_image(self, host_id: str, image: str) -> None:
        """Begins to fetch an image there."""
        check(self._request("POST", f"/api/v1/hosts/{part(host_id)}/images", json={"image": image}), self.url)

    def add_host(self, spec: Mapping[str, Any]) -> Json:
        return self._object("POST", "hosts", json=dict(spec))

    def remove_host(self, host_id: str, *, force: bool = False) -> None:
        self._delete(f"hosts/{part(host_id)}", params={"force": force})

    def drain(self, host_id: str, deadline_s: float) -> Json:
        return self._object("POST", f"hosts/{part(host_id)}/drain", json={"deadline_s": deadline_s})

    def gpus(self) -> list[Json]:
        return self._list("GET", "gpus")

    def cluster(self) -> Json:
        """Totals, and the cluster's utility."""
        return self._object("GET", "cluster")

    def policy(self) -> Json:
        return self._object("GET", "policy")

    def set_policy(self, algorithm: str, metric: str = "default", params: Mapping[str, Any] | None = None) -> Json:
        body = {"algorithm": algorithm, "metric": metric, "params": dict(params or {})}
        return self._object("PUT", "policy", json=body)

    def expect(self, spec: Mapping[str, Any]) -> Json:
        """When such a job would start and end if it were submitted now; stores nothing."""
        return self._object("POST", "jobs:preview", json=dict(spec))

    def preview(
        self, algorithm: str, metric: str = "default", params: Mapping[str, Any] | None = None, hours: int = 24
    ) -> Json:
        """What another policy would do at once and within the next `hours`; changes nothing."""
        query = {"algorithm": algorithm, "metric": metric, "params": json.dumps(dict(params or {})), "hours": hours}
        return self._object("GET", "policy/preview", params=query)

    def compare_policies(self, hours: int = 24) -> Json:
        """What every policy would make of the jobs that there are within the next `hours`; changes nothing."""
        return self._object("GET", "policy/comparison", params={"hours": hours})

    def events(self, after: int | None = None, limit: int = 200) -> Json:
        """The newest, or those after an id; oldest first."""
        return self._call(calls.events(after, limit))

    def follow_events(self, after: int = 0, on_gap: Callable[[str], None] = lambda why: None) -> Iterator[Json]:
        """Everything that happened after the event with this id, then what happens, without end."""
        for event in self._follow("/api/v1/events", after, on_gap):
            yield event.data

    def metrics(self) -> str:
        """In Prometheus' format."""
        return self._text("/metrics")

    # --- what was ---

    def host_telemetry(self, host_id: str, since: str | None = None, until: str | None = None) -> Json:
        """Readings of a host's GPUs; times are ISO 8601, the last ten minutes by default."""
        return self._object("GET", f"hosts/{part(host_id)}/telemetry", params=_span("from", since, "to", until))

    def job_telemetry(self, job_id: str, since: str | None = None, until: str | None = None) -> Json:
        """Readings of the GPUs that a job held, while it held them."""
        return self._object("GET", f"jobs/{part(job_id)}/telemetry", params=_span("from", since, "to", until))

    def resources(self) -> list[Json]:
        """What each running container takes now of processors, memory, network and disk."""
        return self._list("GET", "resources")

    def utility(self, since: str | None = None, until: str | None = None) -> Json:
        """The cluster's utility and its thresholds over time; the last day by default."""
        return self._object("GET", "cluster/utility", params=_span("from", since, "to", until))

    def timeline(self, since: str | None = None, until: str | None = None, limit: int = 5000) -> Json:
        """Who had which GPU when; the last day by default."""
        return self._object("GET", "timeline", params={**_span("since", since, "until", until), "limit": limit})

    def search_events(self, q: str = "", *, kinds: Iterable[str] = (), limit: int = 100, **given: Any) -> Json:
        """Events that match all of it, newest first. `given`: `job`, `host`, `before`."""
        return self._object("GET", "events:search", params={"q": q, "kind": list(kinds), "limit": limit, **given})

    def replay(self, limit: int = 1000) -> Json:
        """The last jobs that succeeded, as a trace for `schedulearn simulate`, and the `hosts` that there are."""
        return self._object("GET", "policy/replay", params={"limit": limit})

    def policy_history(self, limit: int = 200) -> list[Json]:
        """Since when which policy was in force, oldest first."""
        return self._list("GET", "policy/history", params={"limit": limit})

    def usage(self, **given: Any) -> list[Json]:
        """Rows of `GET /api/v1/usage`; `given` are its parameters."""
        return self._list("GET", "usage", params=given)

    def usage_capacity(self, **given: Any) -> Json:
        """`GET /api/v1/usage/capacity`; `given` are its parameters."""
        return self._object("GET", "usage/capacity", params=given)

    def usage_csv(self, **given: Any) -> str:
        return self._text("/api/v1/usage", params={**given, "format": "csv"})


def _span(first: str, since: str | None, second: str, until: str | None) -> dict[str, str]:
    return {name: at for name, at in ((first, since), (second, until)) if at is not None}
