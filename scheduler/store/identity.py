"""Cluster id stored in the database.

The service tells its containers on an engine from others' by this id.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from sqlalchemy import insert
from sqlalchemy.engine import Connection

from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.db import known_cluster_id
from schedulearn.scheduler.store.models import Meta


def new_id(data_dir: Path, url: str | None) -> str:
    """Return a cluster id for a database that has none yet.

    On a database server, the id belongs to the data folder of the services. That folder holds the code, the key of
    secrets, the logs of their jobs and the local tasks. Without it jobs would fail, or run twice. Raises InvalidError
    for a database with another data folder."""
    if url is None or url.startswith("sqlite"):
        return uuid.uuid4().hex
    marker = data_dir / "cluster-id"
    found = marker.read_text().strip() if marker.exists() else ""
    known = known_cluster_id(url)
    if known not in (None, found):
        raise InvalidError(
            f"{data_dir} is not the data folder of the other services on this database: they must share one folder, "
            "or have copies of it, see docs/operations.md",
            field="data",
        )
    if not found:
        found = uuid.uuid4().hex
        marker.write_text(found)
    return found


def cluster_id(conn: Connection, *, new: str) -> str:
    found = repository.meta(conn, "cluster_id")
    if found is None:
        found = new
        conn.execute(insert(Meta).values(key="cluster_id", value=found))
    return found
