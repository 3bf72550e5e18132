"""Client calls for maintenance windows."""

from __future__ import annotations

from collections.abc import Sequence

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json


class AsyncMaintenanceCalls(AsyncTransport):
    """Calls of both clients for maintenance windows."""

    async def maintenance_windows(self) -> Json:
        """Return the windows that are not over, the next one first: `{"items": [...]}`."""
        return await self._object("GET", "maintenance")

    async def add_maintenance(
        self,
        hosts: Sequence[str] = (),
        *,
        start: str | None = None,
        end: str | None = None,
        every: str | None = None,
        duration: float | None = None,
        time_zone: str | None = None,
        reason: str = "",
        deadline: float = 0.0,
    ) -> Json:
        """Add a window: once from `start` to `end`, or `every` cron time for `duration` seconds. No hosts: all."""
        body = {
            "hosts": list(hosts), "start": start, "end": end, "every": every, "duration": duration,
            "time_zone": time_zone, "reason": reason, "deadline": deadline,
        }  # fmt: skip
        return await self._object("POST", "maintenance", json=body)

    async def delete_maintenance(self, window_id: int) -> None:
        """Delete a window. Hosts that it has drained return to service."""
        await self._nothing("DELETE", f"maintenance/{window_id}")
