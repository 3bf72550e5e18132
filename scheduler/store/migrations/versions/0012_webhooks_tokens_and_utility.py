"""Webhooks, named tokens, hosts that are lost, the history of the cluster's utility"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("host", recreate="never") as host:
        host.add_column(sa.Column("lost_at", sa.Float(), nullable=True))
    op.create_index("task_by_end", "task", ["finished_at"])
    op.create_table(
        "cluster_minute",
        sa.Column("minute", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("utility", sa.Float(), nullable=False),
        sa.Column("low", sa.Float(), nullable=True),
        sa.Column("high", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("minute"),
    )
    op.create_table(
        "webhook",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("delivered", sa.Integer(), nullable=False),
        sa.Column("given_up", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.Float(), nullable=True),
        sa.Column("last_event", sa.String(), nullable=False),
        sa.Column("last_status", sa.Integer(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "api_token",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("last_used_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("hash"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    op.drop_table("api_token")
    op.drop_table("webhook")
    op.drop_table("cluster_minute")
    op.drop_index("task_by_end", table_name="task")
    op.drop_column("host", "lost_at")
