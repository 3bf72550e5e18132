"""How many GPUs there were, at each change"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "capacity",
        sa.Column("at", sa.Float(), autoincrement=False, nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("at"),
    )


def downgrade() -> None:
    op.drop_table("capacity")
