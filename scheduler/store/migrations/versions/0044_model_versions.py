"""Versions of what is learned of a family"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "model_version",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("family", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("since", sa.Float(), nullable=True),
        sa.Column("until", sa.Float(), nullable=True),
        sa.Column("made_at", sa.Float(), nullable=False),
        sa.Column("used_since", sa.Float(), nullable=False),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("in_use", sa.Boolean(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
    )
    op.create_index("model_version_of_family", "model_version", ["family", "number"], unique=True)


def downgrade() -> None:
    op.drop_index("model_version_of_family", table_name="model_version")
    op.drop_table("model_version")
