"""Client calls for ports of jobs."""

from __future__ import annotations

from schedulearn.api.client.asked.base import Asked, J, L, N, T
from schedulearn.api.client.transport import part


class InteractiveCalls(Asked[J, L, N, T]):
    """Part of both clients."""

    def port_link(self, job_id: str, name: str) -> J:
        """Return a link that opens a port of a job in a browser, once."""
        return self._object("POST", f"jobs/{part(job_id)}/ports/{part(name)}")
