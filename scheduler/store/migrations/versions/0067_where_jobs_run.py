"""Where jobs run"""

import sqlalchemy as sa
from alembic import op

revision = "0067"
down_revision = "0065"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("host_constraints", sa.JSON(none_as_null=True), nullable=True))
