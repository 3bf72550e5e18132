"""Where the newest checkpoints of a job are"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("job", recreate="never") as job:
        job.add_column(sa.Column("checkpoint_host", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("job", "checkpoint_host")
