"""What users have beside jobs, data and secrets, as features declare it.

The core asks for it where it must know of all that a user has: what is visible to whom, what is still needed, and what
goes on when a user is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlmodel import SQLModel, col


@dataclass(frozen=True)
class Owned:
    """Objects with a user, such as sweeps. Their table has the columns `id`, `user`, and `finished_at` if they end."""

    table: Any
    parts: Sequence[tuple[type[SQLModel], str]]
    """Further tables, and the SQL condition of the rows that belong to visible objects."""
    jobs_to_come: Callable[[Connection], Iterable[tuple[str, Mapping[str, Any]]]]
    """Id, and the keys of jobs that it will still submit."""
    cancel: Callable[[Connection, str, float], None] | None = None
    """Called with the id and the time. None: they have no end of their own."""

    def unfinished_of(self, db: Connection, user: str) -> Sequence[str]:
        """Return the ids of those of a user that have not ended, and that end."""
        if self.cancel is None:
            return []
        mine = (col(self.table.user) == user, col(self.table.finished_at).is_(None))
        return list(db.execute(select(col(self.table.id)).where(*mine)).scalars())


OWNED: dict[str, Owned] = {}
"""By singular name: `sweep` for events `sweep.ended`, whose data have the id as `sweep`, and for routes `/sweeps`.

A feature adds its own when its tables are loaded."""
