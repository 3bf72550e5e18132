"""The code that a job brings along"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("code", sa.String(), nullable=True))
    op.add_column("job", sa.Column("code_source", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("job", sa.Column("setup", sa.Text(), nullable=True))
    op.add_column("job", sa.Column("requirements", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("job", sa.Column("layer", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    for column in ("layer", "requirements", "setup", "code_source"):
        op.drop_column("job", column)
    op.drop_column("job", "code")
