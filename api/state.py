"""What every route needs of the running application."""

from __future__ import annotations

from typing import cast

from starlette.requests import HTTPConnection

from schedulearn.api.stream import Pulse
from schedulearn.scheduler.cluster import Cluster

__all__ = ["Cluster", "cluster_of", "pulse_of"]


def cluster_of(connection: HTTPConnection) -> Cluster:
    return cast(Cluster, connection.app.state.cluster)


def pulse_of(connection: HTTPConnection) -> Pulse:
    return cast(Pulse, connection.app.state.pulse)
