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


def downgrade() -> None:
    op.drop_column("job", "code_source")
    op.drop_column("job", "code")
