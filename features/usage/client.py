"""Client calls for usage reports."""

from __future__ import annotations

from typing import Any

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json


class AsyncUsageCalls(AsyncTransport):
    """Calls of both clients for usage reports."""

    async def usage(self, **given: Any) -> list[Json]:
        """Rows of `GET /api/v1/usage`; `given` are its parameters."""
        return await self._list("GET", "usage", params=given)

    async def usage_capacity(self, **given: Any) -> Json:
        """`GET /api/v1/usage/capacity`; `given` are its parameters."""
        return await self._object("GET", "usage/capacity", params=given)

    async def usage_csv(self, **given: Any) -> str:
        return await self._text("/api/v1/usage", params={**given, "format": "csv"})
