"""Event of settings that a restart of the service changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from pydantic import SecretStr
from sqlalchemy import delete, insert
from sqlalchemy.engine import Connection
from sqlmodel import col

from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.models import Meta

_KEY = "settings"
_LENGTH = 4
"""Hexadecimal digits of the stored digest. They find a change, and are too few to guess a password by."""


def note_settings(conn: Connection, values: Mapping[str, object], now: float) -> None:
    """Record which settings differ from those of the last start. Values are not stored: some are secrets."""
    current = {name: _digest(name, value) for name, value in values.items()}
    stored = repository.meta(conn, _KEY)
    if stored is not None:
        before: dict[str, str] = json.loads(stored)
        changed = sorted(name for name in before.keys() & current.keys() if before[name] != current[name])
        if changed:
            message = f"The service started with other settings: {', '.join(changed)}."
            repository.add_event(conn, now, "settings.changed", message=message, data={"settings": changed})
        if before == current:
            return
    conn.execute(delete(Meta).where(col(Meta.key) == _KEY))
    conn.execute(insert(Meta).values(key=_KEY, value=json.dumps(current)))


def _digest(name: str, value: object) -> str:
    text = json.dumps([name, value], sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def _plain(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
