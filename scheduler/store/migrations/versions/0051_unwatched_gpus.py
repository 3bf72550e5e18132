"""GPUs that can't be asked now: their jobs go on, no others start"""

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gpu", sa.Column("unwatched", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("gpu", "unwatched")
