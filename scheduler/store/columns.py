"""Types of columns, and many rows of them at once."""

from __future__ import annotations

import json
import re
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

_MANY = 100  # rows
_PLAIN = re.compile(r"[A-Za-z0-9 _./{}\[\]-]{0,100}")  # text that needs no care between quotes


class EnumColumn(TypeDecorator[E]):
    """A word of an enumeration: nothing else is written or read."""

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
    """Seconds since the epoch, never out of the bounds that every answer can show."""

    impl = Float
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None else bounded(value)


def read_json(stored: str) -> Any:
    """For the engine: most columns are empty objects or lists, and there are thousands of them in a list of jobs."""
    return {} if stored == "{}" else [] if stored == "[]" else from_json(stored)


def write_json(value: object) -> str:
    """For the engine, likewise."""
    return "{}" if value == {} else "[]" if value == [] else json.dumps(value)


def json_column() -> Any:
    return Column(JSON, nullable=False)


def json_or_none_column() -> Any:
    return Column(JSON(none_as_null=True), nullable=True)


def pairs_of(conn: Connection, column: SQLColumnExpression[Any]) -> Any:
    """The keys and values of a JSON object of texts, as rows with these two columns."""
    if conn.dialect.name == "sqlite":
        return func.json_each(column).table_valued("key", "value")
    return func.json_each_text(type_coerce(column, String).op("::")(text("json"))).table_valued("key", "value")


def insert_missing(conn: Connection, model: type, rows: Sequence[Mapping[str, object]]) -> None:
    """Those whose keys are not there yet."""
    if conn.dialect.name == "sqlite":
        conn.execute(insert(model).prefix_with("OR IGNORE"), rows)
        return
    from sqlalchemy.dialects import postgresql  # not free

    conn.execute(postgresql.insert(model).on_conflict_do_nothing(), rows)


def insert_rows(conn: Connection, model: type, rows: Sequence[Mapping[str, object]]) -> None:
    """Rows with the same columns."""
    prepare_rows(conn.dialect, model, rows)(conn)


def prepare_rows(dialect: Dialect, model: type, rows: Sequence[Mapping[str, object]]) -> Callable[[Connection], object]:
    """What inserts rows with the same columns, made before the writer is asked to. SQLAlchemy prepares each value by
    itself, which takes as long for the sixty of a job as SQLite takes to store them: here it only says how, once."""
    if not dialect.positional:
        return lambda conn: conn.execute(insert(model), rows)
    statement, columns = _prepared(model, dialect, tuple(rows[0]))
    values = [tuple([row[name] if write is None else write(row[name]) for name, write in columns]) for row in rows]
    if len(values) >= _MANY:
        statement, values = _with_constants(statement, values)
    return lambda conn: conn.exec_driver_sql(statement, values)


def _with_constants(statement: str, values: Sequence[tuple[object, ...]]) -> tuple[str, list[tuple[object, ...]]]:
    """The same with what all rows have in common as a part of the statement. SQLite takes as long to be given the
    values of a job as to store them, and most of them are the same."""
    first = values[0]
    written = [
        literal if literal is None or all(row[place] == first[place] for row in values) else None
        for place, literal in enumerate(map(_literal, first))
    ]
    names, _, _ = statement.partition(" VALUES ")
    rest = [place for place, literal in enumerate(written) if literal is None]
    marks = ", ".join("?" if literal is None else literal for literal in written)
    return f"{names} VALUES ({marks})", [tuple([row[place] for place in rest]) for row in values]


def _literal(value: object) -> str | None:
    """As SQL; None: it is to be given to the driver."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'" if _PLAIN.fullmatch(value) else None
    return str(value) if type(value) is int else None


@lru_cache(16)
def _prepared(
    model: type, dialect: Dialect, names: tuple[str, ...]
) -> tuple[str, Sequence[tuple[str, Callable[[Any], Any] | None]]]:
    """The statement, and in the order of its places each column with what makes the driver's value of one; None: it is
    that already."""
    table = cast(Table, inspect(model).local_table)
    compiled = insert(table).compile(dialect=dialect, column_keys=names)
    in_order = compiled.positiontup or ()
    return str(compiled), [
        (name, table.c[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in in_order
    ]
