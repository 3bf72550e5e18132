"""Searches and pruning of sweeps"""

import sqlalchemy as sa
from alembic import op

revision = "0071"
down_revision = "0070"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sweep", sa.Column("search", sa.String(), nullable=True))
    op.add_column("sweep", sa.Column("prune", sa.String(), nullable=True))
    op.add_column("sweep_run", sa.Column("pruned", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("sweep_run", sa.Column("judged_step", sa.BigInteger(), nullable=True))
    op.add_column("sweep_run", sa.Column("sampler", sa.JSON(), nullable=True))
