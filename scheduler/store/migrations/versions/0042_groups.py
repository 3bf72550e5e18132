"""Groups of users with quotas of their own"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "user_group",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=True),
        sa.Column("gpu_hours", sa.Float(), nullable=True),
        sa.Column("waiting", sa.Integer(), nullable=True),
        sa.Column("submissions", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "group_member",
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("group", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["group"], ["user_group.name"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("user"),
    )
    op.create_index("ix_group_member_group", "group_member", ["group"])


def downgrade() -> None:
    op.drop_table("group_member")
    op.drop_table("user_group")
