"""Accounts with roles; tokens that are owned, scoped and expire; sessions; quotas; who asked for what happened"""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "account",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    # Tokens of before there were accounts might do whatever the service's own may, and still may.
    op.add_column("api_token", sa.Column("owner", sa.String(), nullable=False, server_default=""))
    op.add_column("api_token", sa.Column("role", sa.String(), nullable=False, server_default="admin"))
    op.add_column("api_token", sa.Column("expires_at", sa.Float(), nullable=True))
    op.add_column("api_token", sa.Column("parent_id", sa.Integer(), nullable=True))
    op.create_table(
        "login_session",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=True),
        sa.Column("began_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["api_token.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_table(
        "quota",
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=True),
        sa.Column("gpu_hours", sa.Float(), nullable=True),
        sa.Column("waiting", sa.Integer(), nullable=True),
        sa.Column("submissions", sa.Integer(), nullable=True),
        sa.Column("weight", sa.Float(), nullable=False, server_default="1"),
        sa.PrimaryKeyConstraint("user"),
    )
    op.add_column("event", sa.Column("actor", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("event", "actor")
    op.drop_table("quota")
    op.drop_table("login_session")
    for column in ("parent_id", "expires_at", "role", "owner"):
        op.drop_column("api_token", column)
    op.drop_table("account")
