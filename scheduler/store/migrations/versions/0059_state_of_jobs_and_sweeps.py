"""Jobs and sweeps have a state, as in the API"""

from alembic import op

revision = "0059"
down_revision = "0058"
branch_labels = None
depends_on = None

INDEXES = {"job": ["state", "submitted_at"], "sweep": ["state"]}


def upgrade() -> None:
    for table, columns in INDEXES.items():
        op.drop_index(f"{table}_by_status", table)
        op.execute(f"ALTER TABLE {table} RENAME COLUMN status TO state")
        op.create_index(f"{table}_by_state", table, columns)
