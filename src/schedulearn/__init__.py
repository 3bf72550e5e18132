"""Schedulearn: a lightweight, Docker-native scheduler for deep-learning training.

`schedulearn.Client` talks to a service, `schedulearn.policy` is for authors of policies, `schedulearn.worker` for
training scripts. This file also goes into job containers, which have none of the service's libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedulearn.api.client.client import Client

__all__ = ["Client", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "Client":
        from schedulearn.api.client.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
