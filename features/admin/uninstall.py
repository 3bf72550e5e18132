"""Removal of what a stopped service left on its hosts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from schedulearn.scheduler.cluster import lock_data_folder
from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.errors import RuntimeFault, StoreError
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.leftovers import Leftovers, find_leftovers, remove_leftovers
from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime
from schedulearn.scheduler.store import hosts, repository
from schedulearn.scheduler.store.db import Database, sqlite_url

LOCAL_ENGINE = "unix:///var/run/docker.sock"


@dataclass(frozen=True)
class HostLeftovers:
    host: str
    address: str
    found: Leftovers
    problem: str
    """Reason why the host can't be inspected; empty if it answers."""
    remove: Callable[[], list[str]]
    """Removes the leftovers. Returns the failures, each with its reason."""


class Uninstall:
    """Context manager that finds leftovers.

    No service can start on the data folder meanwhile, unless `everybody` is set."""

    def __init__(self, data_dir: Path, database_url: str | None, *, everybody: bool, images: bool) -> None:
        """`everybody`: find leftovers of any service on this machine's engine, also if its data folder is gone.
        Raises StoreError without a database, or while a service runs on it."""
        self._images = images
        self._open = ExitStack()
        self._cluster_id: str | None = None
        self._rows: Sequence[hosts.HostRow] = ()
        if not everybody:
            if database_url is None and not (data_dir / "schedulearn.db").exists():
                raise StoreError(
                    f"there is no schedulearn.db in {data_dir}: name the data folder by --data; if it is gone, "
                    "--everybody removes what any Schedulearn has on this machine's Docker Engine"
                )
            self._open.enter_context(lock_data_folder(data_dir))
            db = Database(database_url or sqlite_url(data_dir))
            try:
                with db.read() as connection:
                    self._cluster_id = repository.meta(connection, "cluster_id")
                    self._rows = hosts.list_hosts(connection)
            finally:
                db.close()
        self._data_dir = data_dir

    def __enter__(self) -> Uninstall:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def find(self) -> list[HostLeftovers]:
        if self._cluster_id is None:
            return [self._on_engine("local", os.environ.get("DOCKER_HOST") or LOCAL_ENGINE, None)]
        return [
            self._on_engine(row.id, row.address, Path(row.tls) if row.tls else None)
            if row.runtime == "docker"
            else self._local_processes(row.id)
            for row in self._rows
        ]

    def _on_engine(self, host: str, address: str, tls: Path | None) -> HostLeftovers:
        engine = Engine(address, tls)
        self._open.callback(engine.close)
        try:
            found = find_leftovers(engine, self._cluster_id, images=self._images)
        except RuntimeFault as fault:
            return HostLeftovers(host, address, Leftovers(), str(fault), list)
        return HostLeftovers(host, address, found, "", lambda: remove_leftovers(engine, found))

    def _local_processes(self, host: str) -> HostLeftovers:
        """Leave out checkpoints: they are in the data folder, which users remove themselves."""
        runtime = ProcessRuntime(host, self._data_dir)
        self._open.callback(runtime.close)
        tasks = runtime.observe()

        def remove() -> list[str]:
            for task in tasks:
                runtime.remove(task.task_id)
            return []

        found = Leftovers([task.task_id for task in tasks], sum(task.state is EngineState.RUNNING for task in tasks))
        return HostLeftovers(host, "local processes", found, "", remove)
