"""Client call for failures."""

from __future__ import annotations

from typing import Any

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json


class AsyncFailureCalls(AsyncTransport):
    """Calls of both clients for failures."""

    async def failures(self, **given: Any) -> Json:
        """`GET /api/v1/failures`; `given` are its parameters."""
        return await self._object("GET", "failures", params=given)
