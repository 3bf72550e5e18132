"""Guaranteed GPUs of groups"""

import sqlalchemy as sa
from alembic import op

revision = "0074"
down_revision = "0073"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("user_group", sa.Column("guarantee", sa.JSON(), nullable=False, server_default="{}"))
