"""What tasks and hosts take of processors, memory, network and disk"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("task", sa.Column("memory_peak", sa.BigInteger(), nullable=True))
    op.create_table(
        "task_minute",
        sa.Column("task_seq", sa.Integer(), sa.ForeignKey("task.seq", ondelete="CASCADE"), nullable=False),
        sa.Column("minute", sa.Integer(), nullable=False),
        *(
            sa.Column(name, sa.Float(), nullable=True)
            for name in ("cpus", "memory_bytes", "network_in", "network_out", "disk_read", "disk_written")
        ),
        sa.PrimaryKeyConstraint("task_seq", "minute"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "host_minute",
        sa.Column("host_id", sa.String(), nullable=False),
        sa.Column("minute", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Float(), nullable=True) for name in ("cpus", "memory_bytes", "disk_bytes")),
        sa.PrimaryKeyConstraint("host_id", "minute"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("host_minute")
    op.drop_table("task_minute")
    op.drop_column("task", "memory_peak")
