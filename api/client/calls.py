"""Requests that both clients make, as values.

`Client` sends them, `AsyncClient` awaits them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schedulearn.api.client.job import Job, id_of
from schedulearn.api.client.transport import Json, part


@dataclass(frozen=True)
class Call:
    """A request below /api/v1. `key`: its Idempotency-Key, which makes it safe to send again."""

    method: str
    path: str
    params: Json = field(default_factory=dict)
    json: Any = None
    key: str | None = None


def submit(
    spec: Mapping[str, Any], key: str | None, env_from: str | Job | None = None, refuse_late: bool = False
) -> Call:
    query = {} if env_from is None else {"env_from": id_of(env_from)}
    query |= {"refuse_late": "true"} if refuse_late else {}
    return Call("POST", "jobs", query, dict(spec), key or uuid.uuid4().hex)


def submit_batch(specs: Sequence[Mapping[str, Any]], key: str | None) -> Call:
    return Call("POST", "jobs:batch", json=[dict(spec) for spec in specs], key=key or uuid.uuid4().hex)


def jobs(
    states: Iterable[str],
    user: str | None,
    q: str | None,
    labels: Mapping[str, str] | None,
    sweep: str | None,
    ended_since: str | None,
    cursor: str | None,
    limit: int,
) -> Call:
    pairs = [f"{name}={value}" for name, value in (labels or {}).items()]
    given = {
        "state": list(states), "user": user, "q": q, "label": pairs, "sweep": sweep, "ended_since": ended_since,
        "cursor": cursor, "limit": limit,
    }  # fmt: skip
    return Call("GET", "jobs", {key: value for key, value in given.items() if value})


def job(of: str | Job) -> Call:
    return Call("GET", f"jobs/{part(id_of(of))}")


def spec(of: str | Job) -> Call:
    return Call("GET", f"jobs/{part(id_of(of))}/spec")


def cancel(of: str | Job) -> Call:
    return Call("POST", f"jobs/{part(id_of(of))}/cancel")


def purge(of: str | Job) -> Call:
    return Call("POST", f"jobs/{part(id_of(of))}/purge")


def logs_path(of: str | Job) -> str:
    return f"/api/v1/jobs/{part(id_of(of))}/logs"


def logs_params(offset: int, timestamps: bool) -> Json:
    return {"offset": offset, **({"timestamps": True} if timestamps else {})}


def events(after: int | None, limit: int) -> Call:
    return Call("GET", "events", {"limit": limit, **({} if after is None else {"after": after})})


def job_events(of: str | Job, after: int, limit: int) -> Call:
    return Call("GET", f"jobs/{part(id_of(of))}/events", {"after": after, "limit": limit})


def data(after: str) -> Call:
    return Call("GET", "data", {"after": after, "limit": 1000})


def data_versions(name: str) -> Call:
    return Call("GET", f"data/{part(name)}")


def remove_data(name: str, version: int | None) -> Call:
    return Call("DELETE", f"data/{part(name)}", {} if version is None else {"version": version})
