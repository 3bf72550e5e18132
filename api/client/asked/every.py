"""All calls of the core that both clients share."""

from __future__ import annotations

from schedulearn.api.client.asked.base import J, L, N, T
from schedulearn.api.client.asked.cluster import ClusterCalls
from schedulearn.api.client.asked.history import HistoryCalls
from schedulearn.api.client.asked.jobs import JobCalls


class EveryCall(
    JobCalls[J, L, N, T],
    ClusterCalls[J, L, N, T],
    HistoryCalls[J, L, N, T],
):
    """Part of both clients."""
