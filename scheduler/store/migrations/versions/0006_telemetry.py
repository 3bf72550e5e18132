"""GPUs that others use or an operator returned, averages that may be unknown, retries apart from restarts"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_AVERAGES = ("utilization", "memory_bytes", "temperature", "power_w")


def upgrade() -> None:
    for column in (
        sa.Column("occupied", sa.String(), server_default="", nullable=False),
        sa.Column("cleared_at", sa.Float(), nullable=True),
        sa.Column("ecc_accepted", sa.Integer(), server_default="0", nullable=False),
    ):
        op.add_column("gpu", column)
    op.add_column("job", sa.Column("retries", sa.Integer(), server_default="0", nullable=False))
    _make_minutes(nullable=True, sqlite_with_rowid=False)


def downgrade() -> None:
    _make_minutes(nullable=False)
    op.drop_column("job", "retries")
    for name in ("ecc_accepted", "cleared_at", "occupied"):
        op.drop_column("gpu", name)


def _make_minutes(*, nullable: bool, **options: bool) -> None:
    """Anew: nothing was ever written to the old one, and the new one's averages are worth no conversion."""
    op.drop_table("gpu_minute")
    op.create_table(
        "gpu_minute",
        sa.Column("gpu_uuid", sa.String(), nullable=False),
        sa.Column("minute", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Float(), nullable=nullable) for name in _AVERAGES),
        sa.PrimaryKeyConstraint("gpu_uuid", "minute"),
        **options,
    )
