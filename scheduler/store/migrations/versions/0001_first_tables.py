"""First tables"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "event",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("host_id", sa.String(), nullable=True),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    with op.batch_alter_table("event", schema=None) as batch_op:
        batch_op.create_index("event_by_job", ["job_id", "id"], unique=False)

    op.create_table(
        "host",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("runtime", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.CheckConstraint("state IN ('active', 'cordoned')", name="host_state"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "job",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("container_image", sa.String(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("required_gpus", sa.Integer(), nullable=False),
        sa.Column("min_gpus", sa.Integer(), nullable=False),
        sa.Column("max_gpus", sa.Integer(), nullable=False),
        sa.Column("elastic", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("weight", sa.Float(), nullable=False),
        sa.Column("deadline", sa.Float(), nullable=True),
        sa.Column("max_duration", sa.Float(), nullable=True),
        sa.Column("max_restarts", sa.Integer(), nullable=False),
        sa.Column("launcher", sa.String(), nullable=False),
        sa.Column("env", sa.JSON(), nullable=False),
        sa.Column("shm_bytes", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("restarts", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("submitted_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.Column("run_seconds", sa.Float(), nullable=False),
        sa.Column("gpu_seconds", sa.Float(), nullable=False),
        sa.Column("pull_percent", sa.Float(), nullable=True),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("request_hash", sa.String(), nullable=True),
        sa.CheckConstraint(
            "(finished_at IS NOT NULL) = (status IN ('succeeded','failed','cancelled','timeout'))", name="job_finished"
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'pulling', 'starting', 'running', 'resizing', 'stopping', 'succeeded', 'failed', 'cancelled', 'timeout')",
            name="job_status",
        ),
        sa.CheckConstraint("priority BETWEEN 0 AND 100", name="job_priority"),
        sa.CheckConstraint("required_gpus >= 1 AND min_gpus >= 1 AND max_gpus >= min_gpus", name="job_gpus"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("idempotency_key"),
    )
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.create_index("job_by_status", ["status", "submitted_at"], unique=False)
        batch_op.create_index("job_by_time", ["submitted_at", "id"], unique=False)

    op.create_table(
        "meta",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "policy",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("algorithm", sa.String(), nullable=False),
        sa.Column("metric", sa.String(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "gpu",
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("host_id", sa.String(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("present", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["host_id"], ["host.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("uuid"),
    )
    op.create_table(
        "task",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("host_id", sa.String(), nullable=False),
        sa.Column("gpu_uuids", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("stop", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.CheckConstraint("state IN ('wanted', 'running', 'ended')", name="task_state"),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("id"),
        sa.UniqueConstraint("job_id", "attempt", "rank"),
    )
    with op.batch_alter_table("task", schema=None) as batch_op:
        batch_op.create_index("task_by_state", ["state"], unique=False)
        batch_op.create_index(
            "task_one_live_a_rank",
            ["job_id", "rank"],
            unique=True,
            sqlite_where=sa.text("state != 'ended'"),
            postgresql_where=sa.text("state != 'ended'"),
        )

    op.create_table(
        "lease",
        sa.Column("gpu_uuid", sa.String(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("claimed_at", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["gpu_uuid"],
            ["gpu.uuid"],
        ),
        sa.ForeignKeyConstraint(
            ["task_id"],
            ["task.id"],
        ),
        sa.PrimaryKeyConstraint("gpu_uuid", "slot"),
    )
    with op.batch_alter_table("lease", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_lease_task_id"), ["task_id"], unique=False)


def downgrade() -> None:
    with op.batch_alter_table("lease", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_lease_task_id"))

    op.drop_table("lease")
    with op.batch_alter_table("task", schema=None) as batch_op:
        batch_op.drop_index(
            "task_one_live_a_rank",
            sqlite_where=sa.text("state != 'ended'"),
            postgresql_where=sa.text("state != 'ended'"),
        )
        batch_op.drop_index("task_by_state")

    op.drop_table("task")
    op.drop_table("gpu")
    op.drop_table("policy")
    op.drop_table("meta")
    with op.batch_alter_table("job", schema=None) as batch_op:
        batch_op.drop_index("job_by_time")
        batch_op.drop_index("job_by_status")

    op.drop_table("job")
    op.drop_table("host")
    with op.batch_alter_table("event", schema=None) as batch_op:
        batch_op.drop_index("event_by_job")

    op.drop_table("event")
