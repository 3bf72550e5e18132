"""Endpoints for sweeps."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from schedulearn.api.client.asked.base import Asked, J, L, N, Steps, T, every_page, page_options
from schedulearn.api.client.transport import Json, part


class SweepCalls(Asked[J, L, N, T]):
    """Part of both clients."""

    def start_sweep(self, spec: Mapping[str, Any], idempotency_key: str | None = None) -> J:
        """Submit a sweep, and return it as stored.

        A request whose response was lost is sent again. The key keeps that from creating a second sweep."""
        return self._object("POST", "sweeps", json=dict(spec), key=idempotency_key or uuid.uuid4().hex)

    def sweeps(
        self, states: Iterable[str] = (), *, user: str | None = None, cursor: str | None = None, limit: int = 20
    ) -> J:
        """Return one page, newest first: `{"items", "next"}`."""
        return self._object("GET", "sweeps", params=page_options(states, user, cursor, limit))

    def sweep(self, sweep_id: str, *, metric: str | None = None, goal: str | None = None) -> J:
        """Return one sweep with its whole `table`.

        `metric` and `goal`: criteria to compare runs by, instead of the sweep's own."""
        given = {"metric": metric, "goal": goal}
        asked = {key: value for key, value in given.items() if value}
        return self._steps(_whole_sweep(sweep_id, asked))

    def cancel_sweep(self, sweep_id: str) -> J:
        return self._object("POST", f"sweeps/{part(sweep_id)}/cancel")

    def retry_sweep(self, sweep_id: str) -> J:
        """Start the runs again that did not succeed."""
        return self._object("POST", f"sweeps/{part(sweep_id)}/retry")


def _whole_sweep(sweep_id: str, asked: Json) -> Steps:
    pages = yield from every_page(f"sweeps/{part(sweep_id)}", asked)
    logged = sorted({name for page in pages for name in page["logged"]})
    return {**pages[-1], "table": [run for page in pages for run in page["table"]], "logged": logged}
