"""Mends what an older version stored and no present one may: run once, before anything reads."""

from __future__ import annotations

from sqlalchemy import case, or_, update
from sqlalchemy.engine import Connection

from schedulearn.scheduler.core.instants import EARLIEST, LATEST
from schedulearn.scheduler.store.columns import InstantColumn
from schedulearn.scheduler.store.models import METADATA


def mend_instants(db: Connection) -> None:
    """Moves each time that is out of bounds to the nearest bound: it may be a request's, and policies reckon with it.
    Events are left out: they have the service's own times, and there are so many that each start would be longer."""
    for table in METADATA.sorted_tables:
        if table.name == "event":
            continue
        wrong = {
            column: or_(column < EARLIEST, column > LATEST)
            for column in table.columns
            if isinstance(column.type, InstantColumn)
        }
        if wrong:
            mended = {
                column: case((column < EARLIEST, EARLIEST), (column > LATEST, LATEST), else_=column) for column in wrong
            }
            db.execute(update(table).where(or_(*wrong.values())).values(mended))
    db.commit()
