"""By how much the intervals of predictions were widened: scores are by what they were before"""

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

_TABLES = ("length_prediction", "metric_prediction")


def upgrade() -> None:
    for table in _TABLES:
        op.add_column(table, sa.Column("stretch", sa.Float(), nullable=False, server_default="1"))


def downgrade() -> None:
    for table in _TABLES:
        op.drop_column(table, "stretch")
