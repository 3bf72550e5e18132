"""Sign-in by an identity provider or a proxy, and disabled accounts"""

import sqlalchemy as sa
from alembic import op

revision = "0070"
down_revision = "0069"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("account", sa.Column("disabled_by", sa.String(), nullable=True))
    op.add_column("login_session", sa.Column("account_id", sa.Integer(), nullable=True))
    op.add_column("login_session", sa.Column("proxy_user", sa.String(), nullable=False, server_default=""))
    op.create_table(
        "account_identity",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("signed_in_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("issuer", "subject"),
    )
    op.create_index("account_identity_by_account", "account_identity", ["account_id"])
