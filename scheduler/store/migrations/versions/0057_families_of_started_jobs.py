"""Only jobs that have started are found by their family"""

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None


def upgrade() -> None:
    started = sa.text("attempt > 0")
    op.drop_index("job_by_family", "job")
    op.create_index("job_by_family", "job", ["family", "finished_at"], sqlite_where=started, postgresql_where=started)


def downgrade() -> None:
    op.drop_index("job_by_family", "job")
    op.create_index("job_by_family", "job", ["family", "finished_at"])
