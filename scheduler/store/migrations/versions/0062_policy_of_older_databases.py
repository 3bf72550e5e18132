"""Databases where nobody has chosen a policy keep `fifo`, which was the default"""

import time

import sqlalchemy as sa
from alembic import op

revision = "0062"
down_revision = "0061"
branch_labels = None
depends_on = None

_POLICY = sa.table(
    "policy", sa.column("at", sa.Float), sa.column("algorithm"), sa.column("metric"), sa.column("params", sa.JSON)
)


def upgrade() -> None:
    connection = op.get_bind()
    if connection.execute(sa.select(sa.func.count()).select_from(_POLICY)).scalar():
        return
    row = {"at": time.time(), "algorithm": "fifo", "metric": "default", "params": {}}
    connection.execute(_POLICY.insert().values(row))
