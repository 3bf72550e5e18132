"""The type of GPU that a job wants"""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("gpu_type", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("job", "gpu_type")
