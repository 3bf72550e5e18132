"""Schedulearn: a lightweight, Docker-native scheduler for deep-learning training.

`schedulearn.Client` and `schedulearn.AsyncClient` talk to a service, `schedulearn.policy` is for authors of policies,
`schedulearn.worker` for training scripts. This file also goes into job containers, which have none of the service's
libraries.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedulearn.api.client.client import ApiError, ClientError, Job, UnreachableError
    from schedulearn.clients import AsyncClient
    from schedulearn.sync_clients import Client

__all__ = ["ApiError", "AsyncClient", "Client", "ClientError", "Job", "UnreachableError", "__version__"]
__version__ = "0.2.0.dev0"


def __getattr__(name: str) -> object:
    if name in __all__:
        module = {"AsyncClient": "clients", "Client": "sync_clients"}.get(name, "api.client.client")
        found: object = getattr(import_module(f"{__name__}.{module}"), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
