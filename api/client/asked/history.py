"""The calls for what was: readings and events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedulearn.api.client.asked.base import Asked, J, L, N, T
from schedulearn.api.client.transport import part


class HistoryCalls(Asked[J, L, N, T]):
    """Part of both clients."""

    def host_telemetry(self, host_id: str, since: str | None = None, until: str | None = None) -> J:
        """Readings of a host's GPUs; times are ISO 8601, the last ten minutes by default."""
        return self._object("GET", f"hosts/{part(host_id)}/telemetry", params=_span("from", since, "to", until))

    def job_telemetry(self, job_id: str, since: str | None = None, until: str | None = None) -> J:
        """Readings of the GPUs that a job held, while it held them."""
        return self._object("GET", f"jobs/{part(job_id)}/telemetry", params=_span("from", since, "to", until))

    def resources(self) -> L:
        """What each running container takes now of processors, memory, network and disk."""
        return self._list("GET", "resources")

    def utility(self, since: str | None = None, until: str | None = None) -> J:
        """The cluster's utility and its thresholds over time; the last day by default."""
        return self._object("GET", "cluster/utility", params=_span("from", since, "to", until))

    def timeline(self, since: str | None = None, until: str | None = None, limit: int = 5000) -> J:
        """Who had which GPU when; the last day by default."""
        return self._object("GET", "timeline", params={**_span("since", since, "until", until), "limit": limit})

    def search_events(self, q: str = "", *, kinds: Iterable[str] = (), limit: int = 100, **given: Any) -> J:
        """Events that match all of it, newest first. `given`: `job`, `host`, `before`."""
        return self._object("GET", "events:search", params={"q": q, "kind": list(kinds), "limit": limit, **given})

    def replay(self, limit: int = 1000) -> J:
        """The last jobs that succeeded, as a trace for `schedulearn simulate`, and the `hosts` that there are."""
        return self._object("GET", "policy/replay", params={"limit": limit})

    def policy_history(self, limit: int = 200) -> L:
        """Since when which policy was in force, oldest first."""
        return self._list("GET", "policy/history", params={"limit": limit})


def _span(first: str, since: str | None, second: str, until: str | None) -> dict[str, str]:
    return {name: at for name, at in ((first, since), (second, until)) if at is not None}
