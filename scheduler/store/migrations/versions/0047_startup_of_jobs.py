"""How long a job took from its start to its first step: what a restart is expected to take"""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("profile", sa.Column("startup_seconds", sa.Float(), nullable=True))


def downgrade() -> None:
    op.drop_column("profile", "startup_seconds")
