"""Jobs are held and start later; quotas bound their run time"""

import sqlalchemy as sa
from alembic import op

revision = "0064"
down_revision = "0063"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("start_after", "start_delay", "held_at", "released_at"):
        op.add_column("job", sa.Column(column, sa.Float(), nullable=True))
    op.add_column("job", sa.Column("held_by", sa.String(), nullable=False, server_default=""))
    for table in ("quota", "user_group"):
        for column in ("max_duration", "default_duration"):
            op.add_column(table, sa.Column(column, sa.Float(), nullable=True))
