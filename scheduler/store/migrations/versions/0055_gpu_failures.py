"""Early failures of GPUs and hosts, hosts that take no GPU jobs, and compute capabilities"""

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("host", sa.Column("gpu_fault", sa.String(), nullable=False, server_default=""))
    op.add_column("host", sa.Column("gpu_failures", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("gpu", sa.Column("failures", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("gpu", sa.Column("compute", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("gpu", "compute")
    op.drop_column("gpu", "failures")
    op.drop_column("host", "gpu_failures")
    op.drop_column("host", "gpu_fault")
