"""PostgreSQL by psycopg, with the semantics of SQLite.

Integers have 64 bits, text is ordered by its bytes, LIKE ignores case, and JSON is text. Therefore one set of queries
and one set of migrations serve both databases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg.adapt import Buffer, Loader
from psycopg.types.string import StrDumperUnknown, TextLoader
from sqlalchemy import Column, Engine, String, create_engine, event, types
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGTypeCompiler
from sqlalchemy.dialects.postgresql.psycopg import PGCompiler_psycopg, PGDialect_psycopg
from sqlalchemy.engine import make_url

DRIVER = "postgresql+schedulearn"

# The server, too, must notice within seconds that a service is cut off: its lock keeps others waiting.
_SERVER_NOTICES = "-c tcp_keepalives_idle=3 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=3"
_CONNECTION: Mapping[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
    "application_name": "schedulearn",
    "options": _SERVER_NOTICES,
}


class _Types(PGTypeCompiler):
    def visit_integer(self, type_: Any, **kw: Any) -> str:
        return "BIGINT"

    def visit_JSON(self, type_: Any, **kw: Any) -> str:
        return "TEXT"


class _Tables(PGDDLCompiler):
    def get_column_specification(self, column: Column[Any], **kwargs: Any) -> str:
        made = str(super().get_column_specification(column, **kwargs))  # type: ignore[no-untyped-call]
        made = made.replace(" SERIAL", " BIGSERIAL")
        kind = column.type.dialect_impl(self.dialect)
        is_text = isinstance(kind, String) or isinstance(getattr(kind, "impl", None), String)
        return f'{made} COLLATE "C"' if is_text else made


class _Queries(PGCompiler_psycopg):
    def visit_like_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        return str(self.visit_ilike_op_binary(binary, operator, **kw))  # type: ignore[no-untyped-call]


class Dialect(PGDialect_psycopg):
    """Dialect that SQLAlchemy creates by its registered name."""

    supports_statement_cache = True
    supports_native_json_serialization = False
    supports_native_json_deserialization = False
    type_compiler_cls = _Types
    ddl_compiler = _Tables
    statement_compiler = _Queries
    # Without the casts of SQLAlchemy's dialect: psycopg finds out by itself how wide a number is.
    colspecs = {**PGDialect_psycopg.colspecs, types.JSON: types.JSON, types.Integer: types.Integer}  # noqa: RUF012


registry.register("postgresql.schedulearn", __name__, "Dialect")


def make_engine(url: str, options: Mapping[str, Any]) -> Engine:
    given = make_url(url)
    engine = create_engine(
        given.set(drivername=DRIVER),
        connect_args={name: value for name, value in _CONNECTION.items() if name not in given.query},
        pool_size=4,
        max_overflow=12,
        pool_pre_ping=True,
        isolation_level="REPEATABLE READ",
        **options,
    )
    event.listen(engine, "connect", _connected)
    return engine


class _Text(StrDumperUnknown):
    """Dumper of text without NUL, which PostgreSQL can't store.

    An engine's message or a search may contain it."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", "\ufffd"))


class _Number(Loader):
    """Loader that returns sums of integers as integers."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data).decode()
        return int(text) if text.lstrip("-").isdigit() else float(text)


def _connected(connection: Any, _record: object) -> None:
    connection.adapters.register_dumper(str, _Text)
    connection.adapters.register_loader("numeric", _Number)
    connection.adapters.register_loader("json", TextLoader)  # parsed later, as the JSON of all databases
