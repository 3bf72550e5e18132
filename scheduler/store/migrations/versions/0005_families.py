"""Families of jobs, which share what is learned of them"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("family", sa.String(), server_default="", nullable=False))
    op.create_index("job_by_family", "job", ["family", "finished_at"])


def downgrade() -> None:
    op.drop_index("job_by_family", "job")
    op.drop_column("job", "family")
