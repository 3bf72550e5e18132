"""The version of NVIDIA's driver on each host"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("host", sa.Column("driver", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("host", "driver")
