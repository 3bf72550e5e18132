"""Column types, and fast inserts of many rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic_core import from_json
from sqlalchemy import (
    JSON,
    Column,
    Float,
    SQLColumnExpression,
    String,
    Table,
    func,
    insert,
    inspect,
    text,
    type_coerce,
)
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.types import TypeDecorator

from schedulearn.scheduler.core.instants import bounded

E = TypeVar("E", bound=StrEnum)

_MANY = 200
"""Minimum number of rows for which one statement stores several."""
_PARAMETERS = 32_000
"""Maximum parameters of one statement: SQLite accepts 32,766."""


class EnumColumn(TypeDecorator[E]):
    """Column of enumeration values: nothing else is written or read."""

    impl = String
    cache_ok = True

    def __init__(self, words: type[E]) -> None:
        super().__init__()
        self.words = words
        self._by_value = {word.value: word for word in words}  # a third of the time that `words(value)` takes

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else self.words(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> E | None:
        return None if value is None else self._by_value[value]


class InstantColumn(TypeDecorator[float]):
    """Seconds since the epoch, within the bounds that every response can represent."""

    impl = Float
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None else bounded(value)


def read_json(stored: str) -> Any:
    """Parse JSON for the engine.

    Most values are empty objects or lists, and a list of jobs has thousands of them."""
    return {} if stored == "{}" else [] if stored == "[]" else from_json(stored)


def write_json(value: object) -> str:
    """Serialize JSON for the engine, with the same shortcut as `read_json`."""
    return "{}" if value == {} else "[]" if value == [] else json.dumps(value)


def json_column() -> Any:
    return Column(JSON, nullable=False)


def json_or_none_column() -> Any:
    return Column(JSON(none_as_null=True), nullable=True)


def pairs_of(conn: Connection, column: SQLColumnExpression[Any]) -> Any:
    """Return the pairs of a JSON object of texts, as rows of key and value."""
    if conn.dialect.name == "sqlite":
        return func.json_each(column).table_valued("key", "value")
    return func.json_each_text(type_coerce(column, String).op("::")(text("json"))).table_valued("key", "value")


def insert_missing(conn: Connection, model: type, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert the rows whose keys do not exist yet."""
    if conn.dialect.name == "sqlite":
        conn.execute(insert(model).prefix_with("OR IGNORE"), rows)
        return
    from sqlalchemy.dialects import postgresql  # slow import

    conn.execute(postgresql.insert(model).on_conflict_do_nothing(), rows)


def prepare_rows(dialect: Dialect, model: type, rows: Sequence[Mapping[str, object]]) -> Callable[[Connection], object]:
    """Return a function that inserts rows with the same columns.

    Call this before the change is queued, to spare the writer the work. SQLAlchemy prepares each value on its own. For
    the sixty values of a job, that takes as long as SQLite takes to store them. Here SQLAlchemy only provides the
    processors, once."""
    if not dialect.positional:
        return lambda conn: conn.execute(insert(model), rows)
    statement, columns = _prepared(model, dialect, tuple(rows[0]))
    values = [tuple([row[name] if write is None else write(row[name]) for name, write in columns]) for row in rows]
    made = [(statement, values)] if len(values) < _MANY else _of_many(statement.partition(" VALUES ")[0], values)

    def insert_all(conn: Connection) -> None:
        for each, parameters in made:
            conn.exec_driver_sql(each, parameters)

    return insert_all


def _of_many(names: str, values: Sequence[tuple[object, ...]]) -> list[tuple[str, list[tuple[object, ...]]]]:
    """Return statements with as many rows as possible, and their parameters.

    SQLite sets up the checks of a table for each statement, which takes as long as storing a row. After each statement
    the writer waits for the interpreter. Values that all rows share are passed once per statement."""
    first, places = values[0], range(len(values[0]))
    own = [place for place in places if any(row[place] != first[place] for row in values)] or [0]
    constants = [first[place] for place in places if place not in own]
    column = {place: f"column{number}" for number, place in enumerate(own, 1)}
    picked = ", ".join(column.get(place, "?") for place in places)
    row = f"({', '.join('?' * len(own))})"
    made: dict[int, list[tuple[object, ...]]] = {}
    size = (_PARAMETERS - len(constants)) // len(own)
    for start in range(0, len(values), size):
        group = values[start : start + size]
        made.setdefault(len(group), []).append((*constants, *(each[place] for each in group for place in own)))
    return [
        (f"{names} SELECT {picked} FROM (VALUES {', '.join([row] * count)})", parameters)  # noqa: S608
        for count, parameters in made.items()
    ]


@lru_cache(16)
def _prepared(
    model: type, dialect: Dialect, names: tuple[str, ...]
) -> tuple[str, Sequence[tuple[str, Callable[[Any], Any] | None]]]:
    """Return the insert statement, and its columns in order, each with its bind processor.

    The processor converts a value for the driver; None: no conversion is needed."""
    table = cast(Table, inspect(model).local_table)
    compiled = insert(table).compile(dialect=dialect, column_keys=names)
    in_order = compiled.positiontup or ()
    return str(compiled), [
        (name, table.c[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in in_order
    ]
