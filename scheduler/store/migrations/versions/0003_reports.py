"""Reports of the worker SDK, and each job's grace period"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("job", sa.Column("grace_period", sa.Float(), nullable=False, server_default="10"))
    op.create_table(
        "metric",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("points", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "name"),
    )
    op.create_table(
        "observation",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("gpu_type", sa.String(), nullable=False),
        sa.Column("num_nodes", sa.Integer(), nullable=False),
        sa.Column("num_gpus", sa.Integer(), nullable=False),
        sa.Column("atomic_batch", sa.Integer(), nullable=False),
        sa.Column("passes", sa.Integer(), nullable=False),
        sa.Column("grad_time", sa.Float(), nullable=False),
        sa.Column("iter_time", sa.Float(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "gpu_type", "num_nodes", "num_gpus", "atomic_batch"),
    )
    op.create_table(
        "profile",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("reported_at", sa.Float(), nullable=False),
        sa.Column("init_batch", sa.Integer(), nullable=False),
        sa.Column("max_batch", sa.Integer(), nullable=False),
        sa.Column("min_local", sa.Integer(), nullable=False),
        sa.Column("max_local", sa.Integer(), nullable=True),
        sa.Column("accumulate", sa.Boolean(), nullable=False),
        sa.Column("atomic_batch", sa.Integer(), nullable=False),
        sa.Column("accumulation", sa.Integer(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("noise_scale", sa.Float(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("epochs", sa.Integer(), nullable=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("epoch_samples", sa.Integer(), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id"),
    )


def downgrade() -> None:
    for table in ("profile", "observation", "metric"):
        op.drop_table(table)
    op.drop_column("job", "grace_period")
