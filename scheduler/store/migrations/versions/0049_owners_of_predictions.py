"""Whose jobs predictions and versions of a family rest on: those of a user or of a group"""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

_OWNER = """COALESCE((SELECT '/' || m."group" FROM group_member m WHERE m."user" = j."user"), j."user")"""
_INDICES = (
    ("length_prediction", "length_prediction_by_family", ["family", "seq"], False),
    ("metric_prediction", "metric_prediction_by_family", ["family", "metric", "seq"], False),
    ("model_version", "model_version_of_family", ["family", "number"], True),
)


def upgrade() -> None:
    for table, index, columns, unique in _INDICES:
        op.add_column(table, sa.Column("owner", sa.String(), nullable=False, server_default=""))
        of_row = "j.family = model_version.family" if table == "model_version" else f"j.id = {table}.job_id"
        newest = f"SELECT {_OWNER} FROM job j WHERE {of_row} ORDER BY j.submitted_at DESC LIMIT 1"  # noqa: S608
        op.execute(f"UPDATE {table} SET owner = COALESCE(({newest}), '')")  # noqa: S608
        op.drop_index(index, table)
        op.create_index(index, table, [columns[0], "owner", *columns[1:]], unique=unique)


def downgrade() -> None:
    for table, index, columns, unique in _INDICES:
        op.drop_index(index, table)
        op.drop_column(table, "owner")
        op.create_index(index, table, columns, unique=unique)
