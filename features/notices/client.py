"""Client calls for notices."""

from __future__ import annotations

from collections.abc import Sequence

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json, part


class AsyncNoticeCalls(AsyncTransport):
    """Calls of both clients for notices."""

    async def notice_addresses(self) -> Json:
        """Your addresses: `{"items": [...], "events": {name: meaning}, "schemes": [...], "has_mail"}`."""
        return await self._object("GET", "notify")

    async def set_notice_address(
        self, name: str, address: str, *, events: Sequence[str] = (), every_job: bool = False
    ) -> Json:
        """Add or change one of your addresses. No events: end and hang."""
        chosen = {"events": list(events)} if events else {}
        return await self._object(
            "PUT", f"notify/{part(name)}", json={"address": address, "every_job": every_job, **chosen}
        )

    async def remove_notice_address(self, name: str) -> None:
        await self._nothing("DELETE", f"notify/{part(name)}")

    async def test_notice_address(self, name: str) -> Json:
        """Send a trial notice now: `{"ok", "error", "seconds"}`."""
        return await self._object("POST", f"notify/{part(name)}/test")

    async def notices(self, job_id: str) -> Json:
        """Notices about a job, newest first: `{"items": [...]}`."""
        return await self._object("GET", f"jobs/{part(job_id)}/notices")
