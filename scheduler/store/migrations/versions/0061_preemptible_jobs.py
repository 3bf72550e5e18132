"""Rigid jobs may be preemptible"""

import sqlalchemy as sa
from alembic import op

revision = "0061"
down_revision = "0060"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("preemptible", sa.Boolean(), nullable=False, server_default=sa.false()))
