"""Client calls for webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedulearn.api.client.calls import AsyncTransport
from schedulearn.api.client.transport import Json


class AsyncWebhookCalls(AsyncTransport):
    """Calls of both clients for webhooks."""

    async def webhooks(self) -> Json:
        """`{"events": {name: meaning}, "items": [...]}`."""
        return await self._object("GET", "webhooks")

    async def add_webhook(self, spec: Mapping[str, Any]) -> Json:
        return await self._object("POST", "webhooks", json=dict(spec))

    async def set_webhook(self, webhook_id: int, *, active: bool) -> Json:
        return await self._object("PATCH", f"webhooks/{webhook_id}", json={"active": active})

    async def remove_webhook(self, webhook_id: int) -> None:
        await self._nothing("DELETE", f"webhooks/{webhook_id}")

    async def test_webhook(self, webhook_id: int) -> Json:
        """Send a made-up event at once: `{"ok", "status", "error", "seconds"}`."""
        return await self._object("POST", f"webhooks/{webhook_id}/test")
