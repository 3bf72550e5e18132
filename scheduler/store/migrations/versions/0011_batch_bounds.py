"""Batch sizes and epochs as keys of a job"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

COLUMNS = ("batch_size", "max_batch_size", "epochs")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column("job", sa.Column(name, sa.Integer(), nullable=True))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("job", name)
