"""Secrets by name, encrypted; which of them a job gets"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "secret",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "name"),
    )
    op.add_column("job", sa.Column("secrets", sa.JSON(), nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("job", "secrets")
    op.drop_table("secret")
