"""A job whose image is fetched holds no GPUs: where it is fetched stands in its row. One that held some has them until
the loop finds its image missing"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("job", recreate="never") as job:
        job.add_column(sa.Column("fetch_hosts", sa.JSON(), server_default="[]", nullable=False))
    op.execute("UPDATE job SET status = 'starting', pull_percent = NULL WHERE status = 'pulling'")


def downgrade() -> None:
    op.execute("UPDATE job SET status = 'queued' WHERE status = 'pulling'")
    op.drop_column("job", "fetch_hosts")
