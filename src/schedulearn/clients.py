"""Client for asyncio, with the calls of the core and of all features.

scripts/unasync.py makes `sync_clients.py` from it, which has `Client`.
"""

from __future__ import annotations

from schedulearn.api.client import async_client
from schedulearn.features.accounts.client import AsyncAccountCalls
from schedulearn.features.failures.client import AsyncFailureCalls
from schedulearn.features.interactive.client import AsyncInteractiveCalls
from schedulearn.features.laptop.client import AsyncLaptopCalls
from schedulearn.features.maintenance.client import AsyncMaintenanceCalls
from schedulearn.features.notices.client import AsyncNoticeCalls
from schedulearn.features.recurring.client import AsyncScheduleCalls
from schedulearn.features.sweeps.client import AsyncExperimentCalls, AsyncSweepCalls
from schedulearn.features.usage.client import AsyncUsageCalls
from schedulearn.features.webhooks.client import AsyncWebhookCalls


class AsyncClient(
    async_client.AsyncClient,
    AsyncAccountCalls,
    AsyncExperimentCalls,
    AsyncFailureCalls,
    AsyncInteractiveCalls,
    AsyncLaptopCalls,
    AsyncMaintenanceCalls,
    AsyncNoticeCalls,
    AsyncScheduleCalls,
    AsyncSweepCalls,
    AsyncUsageCalls,
    AsyncWebhookCalls,
):
    """Client of one service, with all its calls.

    Its base class describes its arguments and its errors."""
