"""What every route needs of the running application."""

from __future__ import annotations

from typing import cast

from starlette.requests import HTTPConnection

from schedulearn.api.access.credentials import Credentials
from schedulearn.api.stream import Pulse
from schedulearn.api.thread_futures import ThreadFutures
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.core.people import Actor
from schedulearn.scheduler.store.people.quota_book import QuotaBook

__all__ = ["Cluster", "actor_of", "cluster_of", "credentials_of", "futures_of", "pulse_of", "quotas_of"]


def cluster_of(connection: HTTPConnection) -> Cluster:
    return cast(Cluster, connection.app.state.cluster)


def pulse_of(connection: HTTPConnection) -> Pulse:
    return cast(Pulse, connection.app.state.pulse)


def futures_of(connection: HTTPConnection) -> ThreadFutures:
    return cast(ThreadFutures, connection.app.state.futures)


def actor_of(connection: HTTPConnection) -> Actor:
    """Who asks."""
    return cast(Actor, connection.state.actor)


def quotas_of(connection: HTTPConnection) -> QuotaBook:
    return cluster_of(connection).service.quotas


def credentials_of(connection: HTTPConnection) -> Credentials:
    return cast(Credentials, connection.app.state.credentials)
