"""Hosts that are switched off while the policy can do without them"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("host", recreate="never") as host:
        host.add_column(sa.Column("parking", sa.String(), server_default="", nullable=False))


def downgrade() -> None:
    op.drop_column("host", "parking")
