"""Mends what an older version stored and no present one may: run once, before anything reads."""

from __future__ import annotations

from functools import cache

from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.instants import EARLIEST, LATEST
from schedulearn.scheduler.store.columns import InstantColumn
from schedulearn.scheduler.store.models import METADATA


def mend_instants(db: Connection) -> None:
    """Moves each time that is out of bounds to the nearest bound: it may be a request's, and policies reckon with it.
    Events are left out: they have the service's own times, and there are so many that each start would be longer."""
    for statement in _mending():
        db.exec_driver_sql(statement)
    db.commit()


@cache
def _mending() -> list[str]:
    """As text: to write these, SQLAlchemy takes as long as the rest of a service's start."""
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
