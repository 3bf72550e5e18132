"""Quotas bound the priority of jobs"""

import sqlalchemy as sa
from alembic import op

revision = "0060"
down_revision = "0059"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for table in ("quota", "user_group"):
        op.add_column(table, sa.Column("priority", sa.Integer(), nullable=True))
