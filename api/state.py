"""Accessors for the state of the running application."""

from __future__ import annotations

from typing import cast

from starlette.requests import HTTPConnection

from schedulearn.api.access.credentials import Credentials, Grant
from schedulearn.api.settings import Settings
from schedulearn.api.stream import Broadcaster
from schedulearn.scheduler.cluster import Cluster
from schedulearn.scheduler.core.people import Actor
from schedulearn.scheduler.store.people.quota_book import QuotaBook

__all__ = [
    "Cluster",
    "actor_of",
    "broadcaster_of",
    "cluster_of",
    "credentials_of",
    "grant_of",
    "quotas_of",
    "settings_of",
]  # fmt: skip


def cluster_of(connection: HTTPConnection) -> Cluster:
    return cast(Cluster, connection.app.state.cluster)


def broadcaster_of(connection: HTTPConnection) -> Broadcaster:
    return cast(Broadcaster, connection.app.state.broadcaster)


def actor_of(connection: HTTPConnection) -> Actor:
    """Return the sender of a request."""
    return cast(Actor, connection.state.actor)


def grant_of(connection: HTTPConnection) -> Grant | None:
    """Return the grant that identifies the sender; None: the connection does."""
    return cast("Grant | None", connection.state.grant)


def settings_of(connection: HTTPConnection) -> Settings:
    return cast(Settings, connection.app.state.settings)


def quotas_of(connection: HTTPConnection) -> QuotaBook:
    return cluster_of(connection).service.quotas


def credentials_of(connection: HTTPConnection) -> Credentials:
    return cast(Credentials, connection.app.state.credentials)
