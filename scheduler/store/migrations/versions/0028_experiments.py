"""Experiments: the design of a sweep, and what each of its runs came to"""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sweep", sa.Column("design", sa.JSON(), nullable=True))
    op.add_column("sweep_run", sa.Column("results", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("sweep_run", "results")
    op.drop_column("sweep", "design")
