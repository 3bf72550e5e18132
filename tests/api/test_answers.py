"""Every answer is what the OpenAPI document says of it: status, media type, and each key of its body."""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from apis import FIVE_KEYS, Api, openapi, run_experiment, serve_api
from clusters import wait_for
from gpu_probes.memory import FakeProbe
from matrices import each
from schemas import check_answer, faults

from schedulearn.metrics.probe.readings import Xid
from schedulearn.scheduler.runtimes.contract import FetchProgress
from schedulearn.scheduler.specs.job import JobFields

DOCUMENT = openapi()
ROUTES = sorted((method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods)
PROFILE = {
    "attempt": 1,
    "batch": {"init": 64, "max": 1024, "min_local": 8, "max_local": 256, "atomic": 32, "accumulation": 0, "why": "x"},
    "observations": [
        {"num_nodes": 1, "num_gpus": gpus, "atomic_batch": batch, "passes": 50, "grad_time": 0.01 + batch / 1000,
         "iter_time": 0.01 + batch / 1000 + (0.004 if gpus > 1 else 0)}
        for gpus in (1, 2)
        for batch in (16, 32)
    ],
    "noise_scale": 500.0,
    "progress": {"epoch": 1, "epochs": 10, "position": 128, "epoch_samples": 1000, "steps": 20},
    "metrics": [{"name": "loss", "step": 20, "value": 0.5, "at": 1.8e9}],
}  # fmt: skip
MEMBER = {
    "attempt": 1, "member": 0, "leads": False, "trained": 0, "forming": False, "meeting": None, "known": 0, "hold": 0,
}  # fmt: skip
JSON = {"content-type": "application/json"}
KIND = {"content-type": "application/x-tar"}
TAR = bytes(1024)
"""An archive without files."""
DIGEST = f"sha256:{hashlib.sha256(bytes(10240)).hexdigest()}"
SWEEP = {
    "name": "lr", "job": {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "required_gpus": 5,
    "command": "train --lr {lr}", "env": {"A": "b"}}, "grid": {"lr": [0.1, "x", 1, True]}, "max_parallel": 2,
}  # fmt: skip
EXPERIMENT = {
    "name": "batches", "job": {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "command": "true"},
    "factors": {"batch_size": [32, 64], "epochs": [1, 2]}, "replications": 3, "max_parallel": 4,
}  # fmt: skip
SEARCH = {"name": "one", "job": {**EXPERIMENT["job"], "family": "f"}, "gpus": [1]}
ADVICE = {"job": {**EXPERIMENT["job"], "required_gpus": 1}, "max_response_time": 60}
SCHEDULE = {"every": "0 3 * * *", "job": {**FIVE_KEYS, "env": {"A": "b"}}}
WINDOW = {"every": "0 4 * * SUN", "duration": 3600, "time_zone": "Europe/Berlin", "reason": "disks"}
WEBHOOK = {"url": "http://127.0.0.1:9/hook"}


def words_of(schema: object) -> set[str]:
    """The keys of a schema and of all below it, but for the names of properties."""
    if isinstance(schema, list):
        return set().union(*map(words_of, schema))
    if not isinstance(schema, dict):
        return set()
    below = [*(schema.get("properties") or {}).values(), *(each for key, each in schema.items() if key != "properties")]
    return set(schema).union(*map(words_of, below))


def test_bounds_are_told_in_words_of_json_schema() -> None:
    words = words_of(list(DOCUMENT["components"]["schemas"].values()))
    assert "minimum" in words
    assert not words & {"ge", "le", "gt", "lt", "max_length", "min_length"}, "of the union, not of its members"


@dataclass
class Stage:
    """A service of which every list holds something."""

    api: Api
    names: dict[str, str]
    """What stands for the parameters of a path."""
    worker: dict[str, str] = field(default_factory=dict)
    """The header of the running job's worker."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    probe = FakeProbe(3)
    settings: dict[str, Any] = {"report_url": "http://127.0.0.1:1", "data_sets": {"wiki": "/srv/wiki"}}
    with serve_api(tmp_path_factory.mktemp("answers"), probe=probe, **settings) as api:

        def gpus() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = api.http.get("/api/v1/gpus").json()
            return found

        wait_for(lambda: len(gpus()) == 3 and all(gpu["reading"] for gpu in gpus()), what="readings")
        api.runtime.images.present = {FIVE_KEYS["container_image"]}
        api.runtime.fetchable = {"new:1": [FetchProgress(50.0, "half")]}
        done = api.submit(required_gpus=1)
        api.wait(done, "running")
        api.write_log(done, b"epoch 1\n", end=True)
        api.runtime.finish(f"schedulearn-{done}-1-0")
        api.wait(done, "succeeded")
        sent = api.http.post("/api/v1/code", content=TAR, headers=KIND).json()["digest"]
        job = api.submit(
            required_gpus=1, elastic=True, max_gpus=2, mounts=["wiki"], env={"LR": "0.1", "TOKEN": "x"}, cpus=1.5,
            memory="64m", labels={"team": "vision"}, deadline="2030-01-01", max_duration=3600, epochs=3,
            code={"digest": sent, "commit": "1" * 40, "dirty": True},
        )  # fmt: skip
        api.wait(job, "running")
        api.runtime.write_checkpoint(job, b"x")
        api.runtime.write_output(job, "model.pt", b"weights")
        waiting = api.submit(required_gpus=5, ports={"web": 8888})
        unwanted, other_unwanted = (api.submit(required_gpus=5) for _ in range(2))
        token = api.runtime.env(f"schedulearn-{job}-1-0")["SCHEDULEARN_JOB_TOKEN"]
        probe.set(2, xids=(Xid(79, 1, time.time() - 1),))
        wait_for(lambda: gpus()[2]["state"] == "unhealthy", what="a GPU that is unhealthy")
        webhook = api.http.post("/api/v1/webhooks", json=WEBHOOK).json()["id"]
        sweep = api.http.post("/api/v1/sweeps", json=SWEEP).json()["id"]
        schedule = api.http.post("/api/v1/schedules", json=SCHEDULE).json()["id"]
        window = api.http.post("/api/v1/maintenance", json=WINDOW).json()["id"]
        searched = run_experiment(api, SEARCH, "searches")
        measured = run_experiment(api, {**EXPERIMENT, "job": {**EXPERIMENT["job"], "required_gpus": 1}})
        named = api.http.post("/api/v1/tokens", json={"name": "other"}).json()
        api.http.post("/api/v1/users", json={"name": "ada"})
        login, other = (api.http.post("/api/v1/logins", json={}).json() for _ in range(2))
        names = {
            "job_id": job, "waiting": waiting, "unwanted": unwanted, "other_unwanted": other_unwanted,
            "done": done, "host_id": "far", "user": "ben", "gpu": "2",
            "webhook_id": str(webhook),
            "schedule_id": schedule,
            "window_id": str(window),
            "token_id": str(named["id"]), "token": named["token"], "name": "ada", "algorithm": "roundrobin",
            "digest": DIGEST, "path": "outputs/model.pt", "sweep_id": sweep,
            "code": login["code"], "secret": login["secret"], "refused": other["code"],
            "own": api.http.get("/api/v1/whoami").json()["name"],
            "measured": measured, "searched": searched, "version": "1", "sha256": hashlib.sha256().hexdigest(),
        }  # fmt: skip
        yield Stage(api, names, {"authorization": f"Bearer {token}"})


@dataclass
class Ask:
    """A request that succeeds. `path`: where another than the route's own is asked for."""

    body: Any = None
    """A function makes it of the stage's names."""
    query: dict[str, Any] = field(default_factory=dict)
    path: str = ""
    as_worker: bool = False
    content: bytes | None = None


EXAMPLES: dict[tuple[str, str], list[Ask]] = {
    ("GET", "/healthz"): [Ask()],
    ("POST", "/api/v1/session"): [Ask(lambda names: {"token": names["token"]})],
    ("DELETE", "/api/v1/session"): [Ask()],
    ("GET", "/api/v1/client"): [Ask()],
    ("POST", "/api/v1/logins"): [Ask({"host": "laptop", "account": "ada", "role": "user"})],
    ("GET", "/api/v1/logins/{code}"): [Ask()],
    ("POST", "/api/v1/logins/{code}/approve"): [Ask({"role": "user"})],
    ("POST", "/api/v1/logins/{code}/refuse"): [Ask(path="/api/v1/logins/{refused}/refuse")],
    ("POST", "/api/v1/logins/token"): [Ask(lambda names: {"secret": names["secret"]})],
    ("GET", "/api/v1/whoami"): [Ask()],
    ("GET", "/api/v1/users"): [Ask()],
    ("PUT", "/api/v1/quotas/{name}"): [Ask({"gpus": 64, "gpu_hours": 1e5, "waiting": 1000, "submissions": 1000})],
    ("GET", "/api/v1/quotas"): [Ask()],
    ("DELETE", "/api/v1/quotas/{name}"): [Ask()],
    ("PUT", "/api/v1/groups/{name}"): [Ask({"gpus": 64, "gpu_hours": 1e5, "waiting": 1000, "submissions": 1000})],
    ("PUT", "/api/v1/groups/{name}/members/{user}"): [Ask()],
    ("GET", "/api/v1/groups"): [Ask()],
    ("DELETE", "/api/v1/groups/{name}/members/{user}"): [Ask()],
    ("DELETE", "/api/v1/groups/{name}"): [Ask()],
    ("PUT", "/api/v1/secrets/{name}"): [Ask({"value": "hush hush"})],
    ("GET", "/api/v1/secrets"): [Ask()],
    ("PUT", "/api/v1/registries/{name}"): [
        Ask({"username": "ada", "password": "hush hush"}, path="/api/v1/registries/reg.lab:5000"),
        Ask({"username": "ada", "password": "hush hush"}, path="/api/v1/registries/reg.lab", query={"shared": "true"}),
    ],
    ("GET", "/api/v1/registries"): [Ask()],
    ("DELETE", "/api/v1/registries/{name}"): [Ask(path="/api/v1/registries/reg.lab:5000")],
    ("DELETE", "/api/v1/secrets/{name}"): [Ask()],
    ("GET", "/api/v1/data-limits"): [Ask()],
    ("POST", "/api/v1/data/{name}/versions"): [
        Ask({"files": [{"path": "a", "size": 1, "sha256": "0" * 64}]}),
        Ask({"folders": ["empty"]}),
    ],
    ("PUT", "/api/v1/content/{sha256}"): [Ask(query={"size": 0})],
    ("POST", "/api/v1/content"): [Ask(content=TAR)],
    ("GET", "/api/v1/data"): [Ask()],
    ("GET", "/api/v1/data/{name}"): [Ask()],
    ("GET", "/api/v1/data/{name}/{version}/archive"): [Ask()],
    ("DELETE", "/api/v1/data/{name}"): [Ask()],
    ("POST", "/api/v1/users"): [Ask({"name": "ben", "role": "viewer"})],
    ("PATCH", "/api/v1/users/{name}"): [Ask({"role": "viewer"})],
    ("GET", "/api/v1/sign-in"): [Ask()],
    ("PUT", "/api/v1/users/{name}/identities"): [Ask({"issuer": "https://id.lab.org", "subject": "7d3c"})],
    ("DELETE", "/api/v1/users/{name}/identities"): [Ask()],
    ("DELETE", "/api/v1/users/{name}"): [Ask()],
    ("GET", "/metrics"): [Ask()],
    ("POST", "/api/v1/reports"): [Ask(PROFILE, as_worker=True)],
    ("POST", "/api/v1/reports/membership"): [Ask(MEMBER, as_worker=True)],
    ("POST", "/api/v1/jobs"): [Ask(FIVE_KEYS)],
    ("POST", "/jobs"): [Ask(FIVE_KEYS)],
    ("POST", "/api/v1/post"): [Ask(FIVE_KEYS)],
    ("POST", "/api/v1/jobs:batch"): [Ask([FIVE_KEYS, FIVE_KEYS])],
    ("POST", "/api/v1/jobs:preview"): [Ask(FIVE_KEYS)],
    ("GET", "/api/v1/jobs"): [Ask(), Ask(query={"limit": 1}), Ask(query={"state": "succeeded"})],
    ("GET", "/jobs"): [Ask()],
    ("GET", "/api/v1/jobs/{job_id}"): [Ask(), Ask(path="/api/v1/jobs/{done}"), Ask(path="/api/v1/jobs/{waiting}")],
    ("GET", "/jobs/{job_id}"): [Ask()],
    ("GET", "/api/v1/jobs/{job_id}/spec"): [Ask(), Ask(path="/api/v1/jobs/{done}/spec")],
    ("GET", "/api/v1/jobs/{job_id}/events"): [Ask()],
    ("GET", "/api/v1/jobs/{job_id}/logs"): [Ask(path="/api/v1/jobs/{done}/logs")],
    ("GET", "/api/v1/jobs/{job_id}/profile"): [Ask(), Ask(path="/api/v1/jobs/{waiting}/profile")],
    ("GET", "/api/v1/jobs/{job_id}/processes"): [Ask(), Ask(query={"rank": 0})],
    ("POST", "/api/v1/jobs/{job_id}/ports/{name}"): [Ask(path="/api/v1/jobs/{waiting}/ports/web")],
    ("GET", "/api/v1/jobs/{job_id}/ports/{name}"): [Ask(path="/api/v1/jobs/{waiting}/ports/web")],
    ("GET", "/api/v1/jobs/{job_id}/telemetry"): [Ask(), Ask(path="/api/v1/jobs/{done}/telemetry")],
    ("POST", "/api/v1/code"): [Ask(content=TAR), Ask(content=TAR, query={"digest": DIGEST})],
    ("GET", "/api/v1/code"): [Ask()],
    ("GET", "/api/v1/code/{digest}"): [Ask()],
    ("GET", "/api/v1/code/{digest}/archive"): [Ask()],
    ("GET", "/api/v1/jobs/{job_id}/files"): [
        Ask(),
        Ask(query={"path": "outputs"}),
        Ask(query={"path": "checkpoints", "limit": 1, "host": "local"}),
    ],
    ("GET", "/api/v1/jobs/{job_id}/files/{path}"): [Ask(), Ask(path="/api/v1/jobs/{job_id}/files/outputs")],
    ("POST", "/api/v1/schedules"): [Ask(SCHEDULE)],
    ("GET", "/api/v1/schedules"): [Ask(), Ask(query={"limit": 1, "user": "nobody"})],
    ("GET", "/api/v1/schedules/{schedule_id}"): [Ask()],
    ("POST", "/api/v1/schedules/{schedule_id}/pause"): [Ask()],
    ("POST", "/api/v1/schedules/{schedule_id}/resume"): [Ask()],
    ("DELETE", "/api/v1/schedules/{schedule_id}"): [Ask()],
    ("POST", "/api/v1/maintenance"): [Ask(WINDOW)],
    ("GET", "/api/v1/maintenance"): [Ask()],
    ("DELETE", "/api/v1/maintenance/{window_id}"): [Ask()],
    ("POST", "/api/v1/sweeps"): [Ask(SWEEP)],
    ("GET", "/api/v1/sweeps"): [Ask(), Ask(query={"limit": 1, "state": "running"})],
    ("GET", "/api/v1/sweeps/{sweep_id}"): [Ask(), Ask(query={"limit": 1, "metric": "x", "goal": "max"})],
    ("POST", "/api/v1/sweeps/{sweep_id}/cancel"): [Ask()],
    ("POST", "/api/v1/sweeps/{sweep_id}/retry"): [Ask()],
    ("POST", "/api/v1/experiments"): [Ask({**EXPERIMENT, "job": {**EXPERIMENT["job"], "required_gpus": 5}})],
    ("GET", "/api/v1/experiments"): [Ask(), Ask(query={"limit": 1, "state": "running"})],
    ("POST", "/api/v1/searches"): [Ask({**SEARCH, "gpus": [5]})],
    ("GET", "/api/v1/searches/{sweep_id}"): [Ask(path="/api/v1/searches/{searched}")],
    ("GET", "/api/v1/searches/default"): [Ask(query={"family": "f"})],
    ("GET", "/api/v1/experiments/{sweep_id}"): [Ask(), Ask(path="/api/v1/experiments/{measured}")],
    ("GET", "/api/v1/experiments/{sweep_id}/analysis"): [Ask(path="/api/v1/experiments/{measured}/analysis")],
    ("POST", "/api/v1/advise"): [Ask(ADVICE)],
    ("GET", "/api/v1/predictions"): [Ask(), Ask(query={"family": "none", "limit": 1, "window": 5})],
    ("GET", "/api/v1/predictions/families"): [Ask(), Ask(query={"window": 1, "limit": 1})],
    ("GET", "/api/v1/predictions/versions"): [Ask(query={"family": "none"})],
    ("PUT", "/api/v1/predictions/versions"): [Ask({"family": "none", "version": None})],
    ("GET", "/api/v1/data-sets"): [Ask()],
    ("GET", "/api/v1/hosts"): [Ask()],
    ("POST", "/api/v1/hosts"): [Ask({"address": "unix:///nowhere.sock", "name": "far", "simulate_gpus": 1})],
    ("GET", "/api/v1/hosts/{host_id}"): [Ask(), Ask(path="/api/v1/hosts/local")],
    ("POST", "/api/v1/hosts/{host_id}/cordon"): [Ask()],
    ("POST", "/api/v1/hosts/{host_id}/uncordon"): [Ask()],
    ("POST", "/api/v1/hosts/{host_id}/drain"): [Ask({"deadline_s": 60})],
    ("DELETE", "/api/v1/hosts/{host_id}"): [Ask()],
    ("PATCH", "/api/v1/hosts/{host_id}/labels"): [
        Ask({"labels": {"room": value}}, path="/api/v1/hosts/local/labels") for value in ("b2", None)
    ],
    ("POST", "/api/v1/hosts/{host_id}/gpus/{gpu}/cordon"): [Ask(path="/api/v1/hosts/local/gpus/{gpu}/cordon")],
    ("POST", "/api/v1/hosts/{host_id}/gpus/{gpu}/drain"): [
        Ask({"deadline_s": 60}, path="/api/v1/hosts/local/gpus/{gpu}/drain")
    ],
    ("POST", "/api/v1/hosts/{host_id}/gpus/{gpu}/reset"): [Ask(path="/api/v1/hosts/local/gpus/{gpu}/reset")],
    ("POST", "/api/v1/hosts/{host_id}/gpus/{gpu}/return"): [Ask(path="/api/v1/hosts/local/gpus/{gpu}/return")],
    ("POST", "/api/v1/hosts/{host_id}/images"): [Ask({"image": "new:1"}, path="/api/v1/hosts/local/images")],
    ("GET", "/api/v1/hosts/{host_id}/disk"): [Ask(path="/api/v1/hosts/local/disk")],
    ("GET", "/api/v1/resources"): [Ask()],
    ("GET", "/api/v1/hosts/{host_id}/telemetry"): [Ask(path="/api/v1/hosts/local/telemetry")],
    ("GET", "/api/v1/gpus"): [Ask()],
    ("GET", "/api/v1/cluster"): [Ask()],
    ("GET", "/api/v1/cluster/utility"): [Ask()],
    ("GET", "/api/v1/policy"): [Ask()],
    ("PUT", "/api/v1/policy"): [Ask({"algorithm": "tiresias", "params": {}})],
    ("PUT", "/algorithm/{algorithm}"): [Ask()],
    ("GET", "/api/v1/policy/preview"): [Ask(query={"algorithm": "fifo"})],
    ("GET", "/api/v1/policy/comparison"): [Ask(), Ask(query={"hours": 1})],
    ("GET", "/api/v1/policy/history"): [Ask()],
    ("GET", "/api/v1/policy/replay"): [Ask()],
    ("GET", "/api/v1/events"): [Ask(), Ask(query={"after": 0})],
    ("GET", "/api/v1/events:search"): [Ask()],
    ("GET", "/api/v1/timeline"): [Ask()],
    ("GET", "/api/v1/timeline/expected"): [Ask(), Ask(query={"limit": 1})],
    ("GET", "/api/v1/failures"): [Ask(), Ask(query={"user": "nobody"})],
    ("GET", "/api/v1/usage"): [Ask(), Ask(query={"by": ["day", "label"], "label": "team"})],
    ("GET", "/api/v1/usage/capacity"): [Ask()],
    ("GET", "/api/v1/webhooks"): [Ask()],
    ("POST", "/api/v1/webhooks"): [Ask(WEBHOOK)],
    ("POST", "/api/v1/webhooks/{webhook_id}/test"): [Ask()],
    ("PATCH", "/api/v1/webhooks/{webhook_id}"): [Ask({"active": False})],
    ("DELETE", "/api/v1/webhooks/{webhook_id}"): [Ask()],
    ("GET", "/api/v1/notify"): [Ask()],
    ("PUT", "/api/v1/notify/{name}"): [Ask({"address": "http://127.0.0.1:9/hook"}, path="/api/v1/notify/own")],
    ("POST", "/api/v1/notify/{name}/test"): [Ask(path="/api/v1/notify/own/test")],
    ("DELETE", "/api/v1/notify/{name}"): [Ask(path="/api/v1/notify/own")],
    ("GET", "/api/v1/jobs/{job_id}/notices"): [Ask()],
    ("GET", "/api/v1/tokens"): [Ask()],
    ("POST", "/api/v1/tokens"): [Ask({"name": "ci"})],
    ("DELETE", "/api/v1/tokens/{token_id}"): [Ask()],
    ("PATCH", "/api/v1/jobs/{job_id}"): [Ask({"priority": 7})],
    **{
        ("POST", f"/api/v1/jobs/{{job_id}}/{what}"): [Ask(path=f"/api/v1/jobs/{{waiting}}/{what}")]
        for what in ("hold", "release", "pause", "resume")
    },
    ("POST", "/api/v1/jobs/{job_id}/cancel"): [Ask()],
    ("DELETE", "/api/v1/jobs/{job_id}"): [Ask(path="/api/v1/jobs/{unwanted}")],
    ("POST", "/api/v1/jobs/{job_id}/purge"): [Ask(path="/api/v1/jobs/{done}/purge")],
    ("DELETE", "/jobs/{job_id}"): [Ask(path="/jobs/{other_unwanted}")],
}
"""In this order: what is shown was made before, and what is removed was shown."""
LEAVE_NO_EVENT = {
    ("POST", "/api/v1/jobs:preview"): "it only asks",
    ("POST", "/api/v1/advise"): "it only asks",
    ("POST", "/api/v1/code"): "no job uses the content yet",
    ("POST", "/api/v1/content"): "no version uses the content yet",
    ("PUT", "/api/v1/content/{sha256}"): "no version uses the content yet",
    ("POST", "/api/v1/reports"): "the job reports",
    ("POST", "/api/v1/reports/membership"): "the job reports",
    ("POST", "/api/v1/logins"): "the approval leaves an event, and so does the token",
    ("DELETE", "/api/v1/session"): "there is no session here; tests/api/safety/test_audit_log.py ends one",
    ("PUT", "/api/v1/predictions/versions"): "none is pinned here; test_model_versions.py pins one",
    ("POST", "/api/v1/notify/{name}/test"): "it sends a message",
    ("POST", "/api/v1/jobs/{job_id}/ports/{name}"): "the connection leaves the event `job.port`",
    ("POST", "/api/v1/webhooks/{webhook_id}/test"): "it sends a message",
}


def test_every_route_has_an_example() -> None:
    assert sorted(EXAMPLES) == ROUTES


@pytest.mark.slow
@each(EXAMPLES, "method", "path")
def test_what_succeeds_answers_as_described(stage: Stage, method: str, path: str) -> None:
    newest = stage.api.http.get("/api/v1/events", params={"limit": 1}).json()["items"][-1]["id"]
    for ask in EXAMPLES[method, path]:
        with httpx.Client(base_url=stage.api.http.base_url, timeout=30) as client:
            answer = client.request(
                method,
                (ask.path or path).format(**stage.names),
                json=ask.body(stage.names) if callable(ask.body) else ask.body,
                content=ask.content,
                params=ask.query,
                headers={**(stage.worker if ask.as_worker else {}), **(KIND if ask.content else {})},
            )
        assert answer.is_success or answer.status_code == 303, answer.text
        check_answer(DOCUMENT, method, path, answer)
    if method != "GET" and (method, path) not in LEAVE_NO_EVENT:
        events = stage.api.http.get("/api/v1/events", params={"after": newest, "limit": 1000}).json()["items"]
        by = {(event["actor"], event["address"]) for event in events}
        assert (stage.names["own"], "127.0.0.1") in by, ("no event says who did it", events)


@each(ROUTES, "method", "path")
def test_what_is_refused_answers_as_described(stage: Stage, method: str, path: str) -> None:
    """With a query that no route knows, and a body and names that none takes."""
    nobody = {**dict.fromkeys(stage.names, "0"), "algorithm": "lottery"}
    asks = [stage.api.http.request(method, path.format(**stage.names), params={"nonsense": 1})]
    if "{" in path or "requestBody" in DOCUMENT["paths"][path][method.lower()]:
        asks.append(stage.api.http.request(method, path.format(**nobody), content=b'{"\\ud800": [', headers=JSON))
    for answer in asks:
        assert 400 <= answer.status_code < 500, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        check_answer(DOCUMENT, method, path, answer)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"items": []}, []),
        ({"items": [], "more": 1}, ["$: more is not described"]),
        ({}, ["$: items is missing"]),
        ({"items": [{"id": True}]}, ["is missing", "True is no integer"]),
        ({"items": None}, ["$.items: None is no array"]),
    ],
)
def test_the_check_finds_what_is_wrong(value: Any, told: list[str]) -> None:
    found = " ".join(faults(DOCUMENT, {"$ref": "#/components/schemas/EventPage"}, value))
    assert bool(found) == bool(told)
    assert all(part in found for part in told)


def test_a_job_is_shown_with_every_key_that_a_user_may_give() -> None:
    shown = DOCUMENT["components"]["schemas"]["JobOut"]
    assert JobFields.model_fields.keys() <= shown["properties"].keys()
    assert sorted(shown["required"]) == sorted(shown["properties"])
