"""Sweeps to which a search adds runs"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sweep", sa.Column("open", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    op.drop_column("sweep", "open")
