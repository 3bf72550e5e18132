"""Events name the address of their actor, and the thing that changed"""

import sqlalchemy as sa
from alembic import op

revision = "0073"
down_revision = "0072"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in ("address", "about"):
        op.add_column("event", sa.Column(column, sa.String(), nullable=False, server_default=""))
    for column in ("actor", "about"):
        named = sa.text(f"{column} <> ''")
        op.create_index(f"event_by_{column}", "event", [column, "id"], sqlite_where=named, postgresql_where=named)
