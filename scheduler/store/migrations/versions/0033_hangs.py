"""What is done with jobs that hang, and what tells a crash loop from bad luck"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("on_hang", sa.String(), nullable=True))
    op.add_column("job", sa.Column("hangs", sa.Integer(), server_default="0", nullable=False))
    op.add_column("job", sa.Column("equal_exits", sa.Integer(), server_default="0", nullable=False))
    op.add_column("job", sa.Column("last_exit", sa.Integer(), nullable=True))


def downgrade() -> None:
    for column in ("last_exit", "equal_exits", "hangs", "on_hang"):
        op.drop_column("job", column)
