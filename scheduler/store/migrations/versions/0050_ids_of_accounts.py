"""As whom the jobs of an account write folders of the hosts"""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("account", sa.Column("uid", sa.Integer(), nullable=True))
    op.add_column("account", sa.Column("gid", sa.Integer(), nullable=True))
    op.add_column("account", sa.Column("gids", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:
    for column in ("gids", "gid", "uid"):
        op.drop_column("account", column)
