"""Sweeps; jobs that wait for others; the last and the extreme values of a metric"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_STATES = "'running', 'stopping', 'completed', 'failed', 'cancelled'"
_ENDED = "'completed', 'failed', 'cancelled'"


def upgrade() -> None:
    op.create_table(
        "sweep",
        sa.Column("id", sa.String(), nullable=False, primary_key=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("max_parallel", sa.Integer(), nullable=False),
        sa.Column("max_failures", sa.Integer(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.Column("idempotency_key", sa.String(), nullable=True),
        sa.Column("request_hash", sa.String(), nullable=True),
        sa.CheckConstraint(f"status IN ({_STATES})", name="sweep_status"),
        sa.CheckConstraint(f"(finished_at IS NOT NULL) = (status IN ({_ENDED}))", name="sweep_finished"),
        sa.UniqueConstraint("idempotency_key"),
    )
    op.create_index("sweep_by_status", "sweep", ["status"])
    op.create_index("sweep_by_time", "sweep", ["created_at", "id"])
    op.create_table(
        "sweep_run",
        sa.Column("sweep_id", sa.String(), sa.ForeignKey("sweep.id", ondelete="CASCADE"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("sweep_id", "number"),
        sa.UniqueConstraint("job_id"),
    )
    op.add_column("job", sa.Column("sweep", sa.String(), nullable=True))
    op.add_column("job", sa.Column("after", sa.JSON(), nullable=True))
    op.add_column("job", sa.Column("params", sa.JSON(), nullable=True))
    is_run = sa.text("sweep IS NOT NULL")
    op.create_index("job_by_sweep", "job", ["sweep"], sqlite_where=is_run, postgresql_where=is_run)
    for name in ("last", "lowest", "highest"):
        op.add_column("metric", sa.Column(name, sa.Float(), nullable=True))
    _sum_up_metrics()


def _sum_up_metrics() -> None:
    """Of the points that are there."""
    conn = op.get_bind()
    rows = conn.execute(sa.text("SELECT job_id, name, points FROM metric")).all()
    for job_id, name, points in rows:
        values = [point[1] for point in (json.loads(points) if isinstance(points, str) else points)]
        if values:
            conn.execute(
                sa.text(
                    "UPDATE metric SET last = :last, lowest = :lowest, highest = :highest "
                    "WHERE job_id = :job_id AND name = :name"
                ),
                {"job_id": job_id, "name": name, "last": values[-1], "lowest": min(values), "highest": max(values)},
            )


def downgrade() -> None:
    for name in ("highest", "lowest", "last"):
        op.drop_column("metric", name)
    op.drop_index("job_by_sweep", "job")
    op.drop_column("job", "params")
    op.drop_column("job", "after")
    op.drop_column("job", "sweep")
    op.drop_table("sweep_run")
    op.drop_table("sweep")
