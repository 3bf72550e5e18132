"""The calls for webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedulearn.api.client.transport import Json, Transport


class WebhookCalls(Transport):
    """Part of `Client`."""

    def webhooks(self) -> Json:
        """`{"events": {name: meaning}, "items": [...]}`."""
        return self._object("GET", "webhooks")

    def add_webhook(self, spec: Mapping[str, Any]) -> Json:
        return self._object("POST", "webhooks", json=dict(spec))

    def set_webhook(self, webhook_id: int, *, active: bool) -> Json:
        return self._object("PATCH", f"webhooks/{webhook_id}", json={"active": active})

    def remove_webhook(self, webhook_id: int) -> None:
        self._delete(f"webhooks/{webhook_id}")

    def test_webhook(self, webhook_id: int) -> Json:
        """`{"ok", "status", "error", "seconds"}` of a made-up event that is sent at once."""
        return self._object("POST", f"webhooks/{webhook_id}/test")
