"""Jobs with a metric of their own; what they take of a GPU's memory"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("metric", sa.String(), nullable=True))
    op.add_column("job", sa.Column("gpu_memory", sa.BigInteger(), nullable=True))
    op.create_table(
        "job_gpu_memory",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("family", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("job_gpu_memory_by_family", "job_gpu_memory", ["family", "bytes"])


def downgrade() -> None:
    op.drop_table("job_gpu_memory")
    op.drop_column("job", "gpu_memory")
    op.drop_column("job", "metric")
