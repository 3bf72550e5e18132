"""Client calls for the wheel that a service offers."""

from __future__ import annotations

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json


class AsyncLaptopCalls(AsyncTransport):
    """Calls of both clients for the command line that a service offers."""

    async def client_wheel(self) -> Json:
        """`{"version", "path", "bytes", "sha256", "certificate"}` of the service's wheel. It needs no token."""
        return await self._object("GET", "client")
