"""What metrics of jobs were predicted to end with, and ended with; network and disk of hosts"""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

_RATES = ("network_in", "network_out", "disk_read", "disk_written")


def upgrade() -> None:
    op.create_table(
        "metric_prediction",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("family", sa.String(), nullable=False),
        sa.Column("metric", sa.String(), nullable=False),
        sa.Column("predicted_at", sa.Float(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("jobs", sa.Integer(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("low", sa.Float(), nullable=False),
        sa.Column("high", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("actual", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("job_id", "metric"),
    )
    op.create_index("metric_prediction_by_family", "metric_prediction", ["family", "metric", "seq"])
    for name in _RATES:
        op.add_column("host_minute", sa.Column(name, sa.Float(), nullable=True))


def downgrade() -> None:
    for name in _RATES:
        op.drop_column("host_minute", name)
    op.drop_index("metric_prediction_by_family", table_name="metric_prediction")
    op.drop_table("metric_prediction")
