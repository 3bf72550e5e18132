"""Client calls for webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedulearn.api.client.asked.base import Asked, J, L, N, T


class WebhookCalls(Asked[J, L, N, T]):
    """Calls of both clients for webhooks."""

    def webhooks(self) -> J:
        """`{"events": {name: meaning}, "items": [...]}`."""
        return self._object("GET", "webhooks")

    def add_webhook(self, spec: Mapping[str, Any]) -> J:
        return self._object("POST", "webhooks", json=dict(spec))

    def set_webhook(self, webhook_id: int, *, active: bool) -> J:
        return self._object("PATCH", f"webhooks/{webhook_id}", json={"active": active})

    def remove_webhook(self, webhook_id: int) -> N:
        return self._nothing("DELETE", f"webhooks/{webhook_id}")

    def test_webhook(self, webhook_id: int) -> J:
        """Send a made-up event at once: `{"ok", "status", "error", "seconds"}`."""
        return self._object("POST", f"webhooks/{webhook_id}/test")
