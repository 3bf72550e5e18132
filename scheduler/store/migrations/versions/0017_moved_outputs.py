"""Hosts whose outputs of a job were brought to another one"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "moved_outputs",
        sa.Column("job_id", sa.String(), sa.ForeignKey("job.id", ondelete="CASCADE"), nullable=False),
        sa.Column("host_id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "host_id"),
    )


def downgrade() -> None:
    op.drop_table("moved_outputs")
