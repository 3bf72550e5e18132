"""Client calls for ports of jobs."""

from __future__ import annotations

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json, part


class AsyncInteractiveCalls(AsyncTransport):
    """Part of both clients."""

    async def port_link(self, job_id: str, name: str) -> Json:
        """Return a link that opens a port of a job in a browser, once."""
        return await self._object("POST", f"jobs/{part(job_id)}/ports/{part(name)}")
