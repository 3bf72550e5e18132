"""What a job that is resized will hold, what it held before, and since when"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

COLUMNS = {"target": sa.JSON, "resized_at": sa.Float, "resized_from": sa.JSON}


def upgrade() -> None:
    for name, kind in COLUMNS.items():
        op.add_column("job", sa.Column(name, kind(), nullable=True))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("job", name)
