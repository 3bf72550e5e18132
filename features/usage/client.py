"""Client calls for usage reports."""

from __future__ import annotations

from typing import Any

from schedulearn.api.client.asked.base import Asked, J, L, N, T


class UsageCalls(Asked[J, L, N, T]):
    """Calls of both clients for usage reports."""

    def usage(self, **given: Any) -> L:
        """Rows of `GET /api/v1/usage`; `given` are its parameters."""
        return self._list("GET", "usage", params=given)

    def usage_capacity(self, **given: Any) -> J:
        """`GET /api/v1/usage/capacity`; `given` are its parameters."""
        return self._object("GET", "usage/capacity", params=given)

    def usage_csv(self, **given: Any) -> T:
        return self._text("/api/v1/usage", params={**given, "format": "csv"})
