"""What schemathesis checks beside its own checks, and what it is kept from. Named by SCHEMATHESIS_HOOKS."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

import schemathesis

DATABASE = os.environ["SCHEDULEARN_TEST_DATABASE"]
STORED = {
    "job": "id, priority, state IN ('cancelled', 'stopping')", "webhook": "id, active", "policy": "id",
    "host": "id, state = 'active'", "sweep": "id, name, state IN ('cancelled', 'stopping')",
    "account": "name, role, disabled_by", "account_identity": "*",
    "api_token": "id, name, owner, role, expires_at", "quota": "*", "secret": "*",
    "login_session": "hash, expires_at", "data_version": "name, version, digest",
}  # fmt: skip
"""What requests store, and hosts and the loop leave alone while no job ends. Columns that they change are not here."""
BEYOND_THE_SCHEMA = {"value_error", "invalid", "no_history", "unknown_policy", "string_too_short"}
"""Types of errors by rules that no schema can express: a command with balanced quotes, a time before another one, text
that is more than blanks, jobs of a family that have ended."""
SIZES = {"shm_size", "memory"}
"""A size in words is bounded like a number, and no schema says how large "1.5 GiB" is."""


@schemathesis.serializer("application/x-tar")
def archive(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


connection = sqlite3.connect(f"file:{DATABASE}?mode=ro", uri=True, timeout=30, check_same_thread=False)


def stored() -> dict[str, list[Any]]:
    return {
        table: connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()
        for table, columns in STORED.items()
    }


before: dict[str, dict[str, list[Any]]] = {}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    if case.path.endswith("/logs") and isinstance(case.query, dict):
        case.query.pop("follow", None)  # the log of a job that waits has no end
    if case.method.upper() not in ("GET", "HEAD", "OPTIONS"):
        before[case.id] = stored()


@schemathesis.check
def nothing_stored_by_a_refused_request(context: Any, response: Any, case: Any) -> None:
    known = before.pop(case.id, None)
    if known is not None and response.status_code >= 400:
        now = stored()
        changed = {table: (known[table], now[table]) for table in now if known[table] != now[table]}
        assert not changed, f"refused with {response.status_code}, and yet stored: {str(changed)[:500]}"


@schemathesis.check
def refused_only_for_what_no_schema_says(context: Any, response: Any, case: Any) -> None:
    """In place of `positive_data_acceptance`, which knows no rules between two values."""
    if response.status_code not in (400, 415, 422) or not (case.meta and case.meta.generation.mode.is_positive):
        return
    problem = response.json()
    errors = problem.get("errors") or [{"type": problem["code"], "field": ""}]
    by_rule = [e for e in errors if e["type"] in BEYOND_THE_SCHEMA or e["field"].rpartition(".")[2] in SIZES]
    # Of a value that may be of several kinds, one error tells why it is none of each: one rule is reason enough.
    assert by_rule, f"it follows the schema, and yet: {errors}"
