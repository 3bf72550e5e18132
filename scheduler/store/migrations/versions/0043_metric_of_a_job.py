"""Jobs with a metric of their own"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("metric", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("job", "metric")
