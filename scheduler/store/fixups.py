"""Fix-up of invalid values that an older version stored.

It runs once per start of the service, before anything reads the database.
"""

from __future__ import annotations

from functools import cache

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.instants import EARLIEST, LATEST
from schedulearn.scheduler.store.columns import InstantColumn
from schedulearn.scheduler.store.models import METADATA


def clamp_instants(db: Connection) -> None:
    """Move each time that is out of bounds to the nearest bound.

    Such a time may come from a request, and policies compute with it. Events are skipped: their times are the service's
    own, and because of their number each start would take longer."""
    for statement in _mending():
        db.exec_driver_sql(statement)
    db.commit()


@cache
def _mending() -> list[str]:
    """Return the statements as text.

    SQLAlchemy would take as long to build them as the rest of the service's start."""
    low, high = repr(EARLIEST), repr(LATEST)
    found = []
    for table in METADATA.sorted_tables:
        times = [f'"{column.name}"' for column in table.columns if isinstance(column.type, InstantColumn)]
        if times and table.name != "event":
            values = (
                f"{at} = CASE WHEN {at} < {low} THEN {low} WHEN {at} > {high} THEN {high} ELSE {at} END" for at in times
            )
            wrong = (f"{at} < {low} OR {at} > {high}" for at in times)
            found.append(f'UPDATE "{table.name}" SET {", ".join(values)} WHERE {" OR ".join(wrong)}')  # noqa: S608
    return found
