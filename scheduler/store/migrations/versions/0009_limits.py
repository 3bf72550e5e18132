"""Limits of processors and memory, and data sets, of each job"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("job", recreate="never") as job:
        job.add_column(sa.Column("cpus", sa.Float(), nullable=True))
        job.add_column(sa.Column("memory_bytes", sa.BigInteger(), nullable=True))
        job.add_column(sa.Column("mounts", sa.JSON(), server_default="{}", nullable=False))


def downgrade() -> None:
    for name in ("mounts", "memory_bytes", "cpus"):
        op.drop_column("job", name)
