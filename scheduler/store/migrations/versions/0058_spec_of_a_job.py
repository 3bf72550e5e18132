"""Keys of a job that nothing queries are one document"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None

KEYS = ("type", "command", "setup", "batch_size", "max_batch_size", "epochs")
JSON_KEYS = ("env", "secrets", "mounts", "data", "keep", "requirements", "ports")
CODE = ("code", "code_source")
AT_ONCE = 500


def upgrade() -> None:
    op.add_column("job", sa.Column("spec", sa.JSON(), nullable=False, server_default="{}"))
    columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in (*KEYS, *JSON_KEYS, *CODE)]
    rows = sa.select(sa.column("id"), *columns).select_from(sa.table("job")).order_by(sa.column("id"))
    change = sa.text("UPDATE job SET spec = :spec WHERE id = :id")
    connection, last = op.get_bind(), ""
    while found := connection.execute(rows.where(sa.column("id") > last).limit(AT_ONCE)).mappings().all():
        connection.execute(change, [{"id": row["id"], "spec": json.dumps(document(row))} for row in found])
        last = found[-1]["id"]
    for column in columns:  # in place: a copy of the table would take the rows that refer to it along
        op.drop_column("job", column.name)


def document(row: Any) -> dict[str, Any]:
    """Return the keys of a job that it gave, without those that are empty."""
    found = {name: row[name] for name in KEYS} | {name: read(row[name]) for name in JSON_KEYS}
    if row["code"] is not None:
        source = {"git": None, "ref": None, "commit": None, "dirty": None, **(read(row["code_source"]) or {})}
        found["code"] = {"digest": row["code"], **source}
    return {name: value for name, value in found.items() if value not in (None, {}, []) or name in ("type", "command")}


def read(value: Any) -> Any:
    """Return JSON, which PostgreSQL's driver may have read already."""
    return json.loads(value) if isinstance(value, str) else value
