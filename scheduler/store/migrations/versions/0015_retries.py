"""When a job whose command failed may start again; the image that a task ran"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("not_before", sa.Float(), nullable=True))
    op.add_column("task", sa.Column("image", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    op.drop_column("task", "image")
    op.drop_column("job", "not_before")
