"""Many hosts: how to reach them, faulty GPUs, ports of gangs, telemetry by the minute"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for column in (
        sa.Column("origin", sa.String(), server_default="embedded", nullable=False),
        sa.Column("engine_id", sa.String(), nullable=True),
        sa.Column("simulated_gpus", sa.Integer(), nullable=True),
        sa.Column("tls", sa.String(), server_default="", nullable=False),
        sa.Column("network", sa.String(), server_default="", nullable=False),
        sa.Column("drain_until", sa.Float(), nullable=True),
    ):
        op.add_column("host", column)
    op.create_index("host_by_engine", "host", ["engine_id"], unique=True)
    for column in (
        sa.Column("fault", sa.String(), server_default="", nullable=False),
        sa.Column("island", sa.Integer(), nullable=True),
        sa.Column("numa", sa.Integer(), nullable=True),
    ):
        op.add_column("gpu", column)
    op.add_column("task", sa.Column("energy_joules", sa.Float(), server_default="0", nullable=False))
    op.create_table(
        "port_lease",
        sa.Column("host_id", sa.String(), nullable=False),
        sa.Column("port", sa.Integer(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"]),
        sa.PrimaryKeyConstraint("host_id", "port"),
    )
    op.create_index("ix_port_lease_task_id", "port_lease", ["task_id"])
    op.create_table(
        "gpu_minute",
        sa.Column("gpu_uuid", sa.String(), nullable=False),
        sa.Column("minute", sa.Integer(), nullable=False),
        sa.Column("utilization", sa.Float(), nullable=False),
        sa.Column("memory_bytes", sa.Float(), nullable=False),
        sa.Column("temperature", sa.Float(), nullable=False),
        sa.Column("power_w", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("gpu_uuid", "minute"),
    )


def downgrade() -> None:
    op.drop_table("gpu_minute")
    op.drop_index("ix_port_lease_task_id", "port_lease")
    op.drop_table("port_lease")
    op.drop_column("task", "energy_joules")
    for name in ("numa", "island", "fault"):
        op.drop_column("gpu", name)
    op.drop_index("host_by_engine", "host")
    for name in ("drain_until", "network", "tls", "simulated_gpus", "engine_id", "origin"):
        op.drop_column("host", name)
