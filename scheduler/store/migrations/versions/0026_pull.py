"""Whether the image of a job is pulled again where it is there"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("pull", sa.String(), server_default="missing", nullable=False))


def downgrade() -> None:
    op.drop_column("job", "pull")
