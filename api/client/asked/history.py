"""Endpoints for past readings and events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedulearn.api.client.asked.base import Asked, J, L, N, T
from schedulearn.api.client.transport import part


class HistoryCalls(Asked[J, L, N, T]):
    """Part of both clients."""

    def host_telemetry(self, host_id: str, since: str | None = None, until: str | None = None) -> J:
        """Return readings of a host's GPUs.

        Times are ISO 8601; the default is the last ten minutes."""
        return self._object("GET", f"hosts/{part(host_id)}/telemetry", params=_span("from", since, "to", until))

    def job_telemetry(self, job_id: str, since: str | None = None, until: str | None = None) -> J:
        """Return readings of the GPUs that a job held, while it held them."""
        return self._object("GET", f"jobs/{part(job_id)}/telemetry", params=_span("from", since, "to", until))

    def resources(self) -> L:
        """Return each running container's current use of processors, memory, network and disk."""
        return self._list("GET", "resources")

    def utility(self, since: str | None = None, until: str | None = None) -> J:
        """Return the cluster's utility and its thresholds over time; the last day by default."""
        return self._object("GET", "cluster/utility", params=_span("from", since, "to", until))

    def timeline(self, since: str | None = None, until: str | None = None, limit: int = 5000) -> J:
        """Return which jobs held which GPUs when; the last day by default."""
        return self._object("GET", "timeline", params={**_span("since", since, "until", until), "limit": limit})

    def search_events(self, q: str = "", *, kinds: Iterable[str] = (), limit: int = 100, **given: Any) -> J:
        """Return events that match all criteria, newest first. `given`: `job`, `host`, `before`."""
        return self._object("GET", "events:search", params={"q": q, "kind": list(kinds), "limit": limit, **given})

    def replay(self, limit: int = 1000) -> J:
        """Return the last jobs that succeeded, as a trace for `schedulearn simulate`, and the current `hosts`."""
        return self._object("GET", "policy/replay", params={"limit": limit})

    def policy_history(self, limit: int = 200) -> L:
        """Return which policy was in force since when, oldest first."""
        return self._list("GET", "policy/history", params={"limit": limit})


def _span(first: str, since: str | None, second: str, until: str | None) -> dict[str, str]:
    return {name: at for name, at in ((first, since), (second, until)) if at is not None}
