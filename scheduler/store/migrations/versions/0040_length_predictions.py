"""How long jobs were predicted to take, and took"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "length_prediction",
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("family", sa.String(), nullable=False),
        sa.Column("predicted_at", sa.Float(), nullable=False),
        sa.Column("jobs", sa.Integer(), nullable=False),
        sa.Column("value", sa.Float(), nullable=False),
        sa.Column("low", sa.Float(), nullable=False),
        sa.Column("high", sa.Float(), nullable=False),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("actual", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("seq"),
        sa.UniqueConstraint("job_id"),
    )
    op.create_index("length_prediction_by_family", "length_prediction", ["family", "seq"])


def downgrade() -> None:
    op.drop_index("length_prediction_by_family", table_name="length_prediction")
    op.drop_table("length_prediction")
