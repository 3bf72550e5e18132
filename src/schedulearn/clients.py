"""Clients with the calls of the core and of all features."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from schedulearn.api.client import async_client, client
from schedulearn.api.client.asked.base import J, L, N, T
from schedulearn.api.client.transport import Json
from schedulearn.features.accounts.client import AccountCalls
from schedulearn.features.sweeps.client import ExperimentCalls, SweepCalls
from schedulearn.features.usage.client import UsageCalls
from schedulearn.features.webhooks.client import WebhookCalls

__all__ = ["AsyncClient", "Client"]


class FeatureCalls(
    AccountCalls[J, L, N, T],
    ExperimentCalls[J, L, N, T],
    SweepCalls[J, L, N, T],
    UsageCalls[J, L, N, T],
    WebhookCalls[J, L, N, T],
):
    """Part of both clients."""


class Client(client.Client, FeatureCalls[Json, list[Json], None, str]):
    """One service, synchronously. `schedulearn.api.client.client.Client` says how it is found and what is raised."""


class AsyncClient(
    async_client.AsyncClient,
    FeatureCalls[
        Coroutine[Any, Any, Json], Coroutine[Any, Any, list[Json]], Coroutine[Any, Any, None], Coroutine[Any, Any, str]
    ],
):
    """The same for asyncio."""
