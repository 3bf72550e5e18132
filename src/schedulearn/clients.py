"""Clients with the calls of the core and of all features."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from schedulearn.api.client import async_client, client
from schedulearn.api.client.transport import Json
from schedulearn.features.webhooks.client import WebhookCalls

__all__ = ["AsyncClient", "Client"]


class Client(client.Client, WebhookCalls[Json, list[Json], None, str]):
    """One service, synchronously. `schedulearn.api.client.client.Client` says how it is found and what is raised."""


class AsyncClient(
    async_client.AsyncClient,
    WebhookCalls[
        Coroutine[Any, Any, Json], Coroutine[Any, Any, list[Json]], Coroutine[Any, Any, None], Coroutine[Any, Any, str]
    ],
):
    """The same for asyncio."""
