"""Schedules of recurring jobs"""

import sqlalchemy as sa
from alembic import op

revision = "0068"
down_revision = "0067"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedule",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("cron", sa.String(), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("overlap", sa.String(), nullable=False),
        sa.Column("job", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("next_at", sa.Float(), nullable=True),
        sa.Column("paused_at", sa.Float(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("last_at", sa.Float(), nullable=True),
        sa.Column("last_job", sa.String(), nullable=True),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("request_hash", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("idempotency_key"),
    )
    op.create_index("schedule_by_next", "schedule", ["next_at"])
    op.add_column("job", sa.Column("schedule", sa.String(), nullable=True))
    op.create_index(
        "job_by_schedule",
        "job",
        ["schedule"],
        sqlite_where=sa.text("schedule IS NOT NULL"),
        postgresql_where=sa.text("schedule IS NOT NULL"),
    )
