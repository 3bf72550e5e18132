"""Quotas that bound jobs without GPUs"""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

_COLUMNS = (("cpu_jobs", sa.Integer()), ("cpus", sa.Float()), ("memory_gib", sa.Float()))


def upgrade() -> None:
    for table in ("quota", "user_group"):
        for name, kind in _COLUMNS:
            op.add_column(table, sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for table in ("quota", "user_group"):
        for name, _ in _COLUMNS:
            op.drop_column(table, name)
