"""Row-level visibility for users who see only their own jobs.

While a request of such a user is processed, its connection sees views in place of the tables. The views have the names
of the tables, and only the rows of the user's own jobs. Therefore no query can forget the condition, including queries
that are added later. Changes use the tables themselves: the right to change a job is checked before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from sqlalchemy import Engine, Table, event, inspect, select, text
from sqlalchemy.engine import Connection
from sqlmodel import SQLModel, col

from schedulearn.scheduler.core.named_jobs import GLOB, INSTEAD, NAMED, named_jobs, without_jobs
from schedulearn.scheduler.store.accounting.usage import DeletedTask
from schedulearn.scheduler.store.data.tables import DataVersion
from schedulearn.scheduler.store.models import Event, Job, Metric, PassMeasurement, Profile, ReadLog, Task
from schedulearn.scheduler.store.moved_outputs import MovedOutputs
from schedulearn.scheduler.store.owned import OWNED
from schedulearn.scheduler.store.people.notices import Notice, NoticeChannel
from schedulearn.scheduler.store.predictions.lengths import LengthPrediction
from schedulearn.scheduler.store.predictions.metric_predictions import PredictedMetric
from schedulearn.scheduler.store.resources.gpu_memory import JobGpuMemory
from schedulearn.scheduler.store.resources.xids import GpuXid

SEES_ONLY: ContextVar[str | None] = ContextVar("sees_only", default=None)
"""User whose request is processed and who sees only their own jobs; None: all jobs are visible."""

_ME = "(SELECT name FROM schedulearn_reader)"
_MY_JOB = "job_id IN (SELECT id FROM job)"
_OF_NO_JOB = (
    "job_id IS NULL AND (actor = {me} OR kind LIKE 'host.%' OR kind LIKE 'gpu.%' OR kind LIKE 'policy.%'{owned})"
)
_View = tuple[type[SQLModel], str, dict[str, str]]
"""Table, which of its rows are shown, and columns that are shown otherwise."""
_VIEWS: list[_View] = [
    (Job, '"user" = {me}', {"message": "{message}"}),
    *((table, _MY_JOB, {}) for table in (Task, Profile, PassMeasurement, Metric, ReadLog)),
    *((table, _MY_JOB, {}) for table in (MovedOutputs, LengthPrediction, PredictedMetric, JobGpuMemory)),
    (DeletedTask, '"user" = {me}', {}),
    (GpuXid, _MY_JOB, {}),
    *((table, "owner = {me}", {}) for table in (Notice, NoticeChannel)),
    (
        Event,
        f"{_MY_JOB} OR {_OF_NO_JOB}",
        {
            **{name: f"CASE WHEN actor = {{me}} THEN {name} ELSE '' END" for name in ("actor", "address")},
            "message": "{message}",
        },
    ),
    (
        DataVersion,
        "1 = 1",
        {
            "user": 'CASE WHEN "user" = {me} THEN "user" ELSE \'\' END',
            "job_id": f"CASE WHEN {_MY_JOB} THEN job_id END",
        },
    ),
]
_ON_SQLITE = (  # has no input from users, as all statements below
    f"CASE WHEN message GLOB '{GLOB}' THEN without_jobs(message, (SELECT json_group_array(value)"  # noqa: S608
    ' FROM json_each(named_jobs(message)) WHERE value IN (SELECT id FROM {schema}.job WHERE "user" = {me})))'
    " ELSE message END"
)
_ON_POSTGRESQL = (
    f"regexp_replace(message, '{NAMED[0]}' || coalesce((SELECT string_agg(id, '|') FROM {{schema}}.job"  # noqa: S608
    f" WHERE \"user\" = {{me}} AND strpos({{table}}.message, id) > 0), '-') || '{NAMED[1]}', '{INSTEAD}', 'g')"
)
"""SQL of a message without the parts that name other users' jobs. Ids of the user's own jobs stay."""


@contextmanager
def seeing_all() -> Iterator[None]:
    """Read all jobs, for decisions and counts that reveal none of them."""
    token = SEES_ONLY.set(None)
    try:
        yield
    finally:
        SEES_ONLY.reset(token)


def views() -> list[_View]:
    """Return the views of the core and of what features add; each may rest on those before it."""
    jobs, *others = _VIEWS
    owned: list[_View] = []
    for kind in OWNED.values():
        owned += [(kind.table, '"user" = {me}', {}), *((table, condition, {}) for table, condition in kind.parts)]
    return [jobs, *owned, *others]


def make_views(engine: Engine) -> Engine:
    """Create the views on each connection of an engine. They show no jobs before `show_only`."""
    is_file = engine.dialect.name == "sqlite"
    schema, key = ("main", "json_extract(data, '$.{}')") if is_file else ("public", "(data::json ->> '{}')")
    owned = "".join(
        f" OR kind LIKE '{name}.%' AND {key.format(name)} IN (SELECT id FROM {kind.table.__tablename__})"  # noqa: S608
        for name, kind in OWNED.items()
    )
    message = (_ON_SQLITE if is_file else _ON_POSTGRESQL).replace("{schema}", schema)

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        if is_file:
            connection.create_function(
                "named_jobs", 1, lambda text: json.dumps([*named_jobs(text)]), deterministic=True
            )
            connection.create_function("without_jobs", 2, without_jobs, deterministic=True)
        cursor = connection.cursor()
        collation = "" if is_file else ' COLLATE "C"'  # the same as of the columns with which it is compared
        cursor.execute(f"CREATE TEMPORARY TABLE schedulearn_reader (name VARCHAR{collation})")
        for model, condition, shown in views():
            told = {name: column.replace("{message}", message) for name, column in shown.items()}
            view = _view_of(schema, cast(Table, inspect(model).local_table), condition, told)
            cursor.execute(view.replace("{owned}", owned).replace("{me}", _ME))
        cursor.close()
        connection.commit()

    return engine


def _view_of(schema: str, table: Table, condition: str, shown: dict[str, str]) -> str:
    columns = ", ".join(
        f'{shown[column.name]} AS "{column.name}"' if column.name in shown else f'"{column.name}"'
        for column in table.columns
    )
    # All of these are names and conditions of this program.
    whole = f'CREATE TEMPORARY VIEW "{table.name}" AS SELECT {columns} FROM {schema}."{table.name}" WHERE {condition}'  # noqa: S608
    return whole.replace("{table}", table.name)


def show_only(connection: Connection, user: str) -> None:
    """Show only a user's rows until the end of the transaction."""
    connection.execute(text("DELETE FROM schedulearn_reader"))
    connection.execute(text("INSERT INTO schedulearn_reader VALUES (:name)"), {"name": user})


def names_of_jobs(connection: Connection, ids: Collection[str]) -> dict[str, str]:
    """Return the names of those jobs that the requesting user may see.

    This also works on the writer's connection, for the response to a change."""
    if not ids:
        return {}
    query, user = select(col(Job.id), col(Job.name)).where(col(Job.id).in_(ids)), SEES_ONLY.get()
    rows = connection.execute(query if user is None else query.where(col(Job.user) == user))
    return {row.id: row.name for row in rows}


def told(sentence: str, names: Collection[str]) -> str:
    """Return a message without the parts that name jobs hidden from the requesting user.

    `names`: ids of the jobs that the user may see."""
    return sentence if SEES_ONLY.get() is None else without_jobs(sentence, names)


def visible_jobs(connection: Connection, ids: Collection[str]) -> Collection[str]:
    """Return those of these jobs that the requesting user may see.

    It filters information about jobs that is not in the database."""
    if SEES_ONLY.get() is None:
        return ids
    mine = set(connection.execute(select(col(Job.id))).scalars())
    return [job_id for job_id in ids if job_id in mine]
