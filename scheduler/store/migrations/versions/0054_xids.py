"""Kinds of faults of GPUs; Xid errors by GPU and job"""

import sqlalchemy as sa
from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gpu", sa.Column("fault_kind", sa.String(), nullable=False, server_default=""))
    op.create_table(
        "gpu_xid",
        sa.Column("gpu_uuid", sa.String(), sa.ForeignKey("gpu.uuid", ondelete="CASCADE"), primary_key=True),
        sa.Column("code", sa.Integer(), primary_key=True),
        sa.Column("job_id", sa.String(), primary_key=True),
        sa.Column("program", sa.String(), nullable=False),
        sa.Column("seen_at", sa.Float(), nullable=False),
        sa.Column("noted_at", sa.Float(), nullable=False),
    )


def downgrade() -> None:
    op.drop_table("gpu_xid")
    op.drop_column("gpu", "fault_kind")
