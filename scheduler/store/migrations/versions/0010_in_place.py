"""Jobs whose workers come and go while they train"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("job", recreate="never") as job:
        job.add_column(sa.Column("resize", sa.String(), server_default="restart", nullable=False))
        job.add_column(sa.Column("generation", sa.Integer(), server_default="0", nullable=False))
        job.add_column(sa.Column("trained", sa.Integer(), server_default="0", nullable=False))
        job.add_column(sa.Column("meeting", sa.String(), server_default="", nullable=False))
        job.add_column(sa.Column("forming_at", sa.Float(), nullable=True))
    op.execute("UPDATE job SET generation = attempt")  # each attempt raises both
    with op.batch_alter_table("task", recreate="never") as task:
        task.add_column(sa.Column("generation", sa.Integer(), server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("task", "generation")
    for column in ("forming_at", "meeting", "trained", "generation", "resize"):
        op.drop_column("job", column)
