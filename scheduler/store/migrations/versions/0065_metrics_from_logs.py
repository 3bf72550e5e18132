"""Metrics and progress that are read from logs"""

import sqlalchemy as sa
from alembic import op

revision = "0065"
down_revision = "0064"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("metric", sa.Column("from_log", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "read_log",
        sa.Column("job_id", sa.String(), sa.ForeignKey("job.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("bytes_read", sa.BigInteger(), nullable=False),
        sa.Column("reading", sa.JSON(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("epochs", sa.Integer(), nullable=True),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("epoch_steps", sa.BigInteger(), nullable=False),
        sa.Column("fraction", sa.Float(), nullable=True),
        sa.Column("changed_at", sa.Float(), nullable=True),
        sa.Column("first_fraction", sa.Float(), nullable=True),
        sa.Column("first_at", sa.Float(), nullable=True),
    )
