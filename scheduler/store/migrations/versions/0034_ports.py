"""Ports of jobs that people reach through the service, and when a job that nobody uses is ended"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("ports", sa.JSON(), server_default="{}", nullable=False))
    op.add_column("job", sa.Column("idle_timeout", sa.Float(), nullable=True))


def downgrade() -> None:
    op.drop_column("job", "idle_timeout")
    op.drop_column("job", "ports")
