"""Record of a feature's additions to the service and the command line."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fastapi import APIRouter
    from starlette.datastructures import State
    from starlette.types import ASGIApp

    from schedulearn.scheduler.background import Worker
    from schedulearn.scheduler.cluster import Cluster


class CommandGroup(StrEnum):
    """Sections of `schedulearn --help`, in their order."""

    RUN = "Run jobs"
    LOOK = "Look at jobs"
    FILES = "Files and data"
    INSIDE = "Work inside a job"
    STUDY = "Experiments"
    CLUSTER = "Cluster and people"
    SERVICE = "Service and laptop"


class CommandEntry(NamedTuple):
    """Place of a command, and the beginning of its help: `--help` imports no command."""

    place: str
    help: str
    group: CommandGroup


@dataclass(frozen=True)
class Feature:
    """Capability in a folder of its own.

    Parts are named as `module:attribute` and imported on demand. The command line must not import the web framework,
    and `--help` must not import any command."""

    name: str
    """Name of its folder."""
    tables: str | None = None
    """Module that defines its tables."""
    routers: Sequence[str] = ()
    worker: str | None = None
    """Factory of its worker, which starts and closes with the service."""
    middleware: str | None = None
    """Wrapper of the whole application, called with it and its state. It sees startup and shutdown too."""
    commands: Mapping[str, CommandEntry] = field(default_factory=dict)

    @property
    def package(self) -> str:
        return f"schedulearn.features.{self.name}"

    def load_tables(self) -> None:
        """Register its tables."""
        if self.tables is not None:
            importlib.import_module(f"{self.package}.{self.tables}")

    def load_routers(self) -> list[APIRouter]:
        return [load(self.package, place) for place in self.routers]

    def load_worker(self) -> Callable[[Cluster], Worker] | None:
        found: Callable[[Cluster], Worker] | None = load(self.package, self.worker) if self.worker is not None else None
        return found

    def wrap(self, app: ASGIApp, state: State) -> ASGIApp:
        """Return the application with the feature's middleware around it."""
        wrapped: ASGIApp = load(self.package, self.middleware)(app, state) if self.middleware is not None else app
        return wrapped


def load(package: str, place: str) -> Any:
    """Return the object at `module:attribute` of a package."""
    module, _, name = place.partition(":")
    return reduce(getattr, name.split("."), importlib.import_module(f"{package}.{module}"))
