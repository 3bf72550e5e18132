"""Client calls for schedules."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json, part, without_empty


class AsyncScheduleCalls(AsyncTransport):
    """Calls of both clients for recurring jobs."""

    async def create_schedule(
        self,
        job: Mapping[str, Any],
        every: str,
        *,
        time_zone: str | None = None,
        overlap: str = "skip",
        idempotency_key: str | None = None,
    ) -> Json:
        """Submit a job at the times of a cron expression, and return the schedule.

        `overlap`: `skip` or `queue`, if the previous run has not ended."""
        body = {"job": dict(job), "every": every, "time_zone": time_zone, "overlap": overlap}
        return await self._object("POST", "schedules", json=body, key=idempotency_key or uuid.uuid4().hex)

    async def schedules(self, *, user: str | None = None, cursor: str | None = None, limit: int = 100) -> Json:
        """Return one page, newest first: `{"items", "next"}`."""
        query = without_empty(user=user, cursor=cursor, limit=limit)
        return await self._object("GET", "schedules", params=query)

    async def schedule(self, schedule_id: str) -> Json:
        """Return a schedule with its `job` and its next `times`."""
        return await self._object("GET", f"schedules/{part(schedule_id)}")

    async def pause_schedule(self, schedule_id: str) -> Json:
        """Submit no further runs."""
        return await self._object("POST", f"schedules/{part(schedule_id)}/pause")

    async def resume_schedule(self, schedule_id: str) -> Json:
        """Submit runs again, from the next time on."""
        return await self._object("POST", f"schedules/{part(schedule_id)}/resume")

    async def delete_schedule(self, schedule_id: str) -> None:
        """Delete a schedule. Its jobs stay."""
        await self._nothing("DELETE", f"schedules/{part(schedule_id)}")
