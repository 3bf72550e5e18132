"""Versions of data sets and models; which of them a job gets and makes, and what it gets of jobs before it"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0028"
branch_labels = None
depends_on = None

_JOB = ("data", "inputs", "keep")


def upgrade() -> None:
    op.create_table(
        "data_version",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("removed_at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    op.create_index("data_version_by_digest", "data_version", ["digest"])
    op.create_index(
        "data_version_by_job",
        "data_version",
        ["job_id"],
        sqlite_where=sa.text("job_id IS NOT NULL"),
        postgresql_where=sa.text("job_id IS NOT NULL"),
    )
    for name in _JOB:
        op.add_column("job", sa.Column(name, sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("job", sa.Column("keep_state", sa.String(), nullable=False, server_default=""))
    pending = sa.text("keep_state = 'pending'")
    op.create_index("job_by_keeping", "job", ["keep_state"], sqlite_where=pending, postgresql_where=pending)


def downgrade() -> None:
    op.drop_index("job_by_keeping", "job")
    op.drop_column("job", "keep_state")
    for name in reversed(_JOB):
        op.drop_column("job", name)
    op.drop_table("data_version")
