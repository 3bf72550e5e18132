"""Clients with the calls of the core and of all features."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from schedulearn.api.client import async_client, client
from schedulearn.api.client.asked.base import J, L, N, T
from schedulearn.api.client.transport import Json
from schedulearn.features.accounts.client import AccountCalls
from schedulearn.features.interactive.client import InteractiveCalls
from schedulearn.features.sweeps.client import ExperimentCalls, SweepCalls
from schedulearn.features.usage.client import UsageCalls
from schedulearn.features.webhooks.client import WebhookCalls

__all__ = ["AsyncClient", "Client"]


class FeatureCalls(
    AccountCalls[J, L, N, T],
    ExperimentCalls[J, L, N, T],
    InteractiveCalls[J, L, N, T],
    SweepCalls[J, L, N, T],
    UsageCalls[J, L, N, T],
    WebhookCalls[J, L, N, T],
):
    """Calls of both clients for all features."""


class Client(client.Client, FeatureCalls[Json, list[Json], None, str]):
    """Synchronous client of a service.

    `schedulearn.api.client.client.Client` describes how it finds the service, and its errors."""


class AsyncClient(
    async_client.AsyncClient,
    FeatureCalls[
        Coroutine[Any, Any, Json], Coroutine[Any, Any, list[Json]], Coroutine[Any, Any, None], Coroutine[Any, Any, str]
    ],
):
    """Client of a service for asyncio."""
