"""Jobs may have no GPUs; what the tasks of deleted jobs used"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0019"
branch_labels = None
depends_on = None

_NAME = "job_gpus"
_BEFORE = "required_gpus >= 1 AND min_gpus >= 1 AND max_gpus >= min_gpus"
_AFTER = "required_gpus >= 0 AND min_gpus >= 0 AND max_gpus >= min_gpus"


def upgrade() -> None:
    _replace(_BEFORE, _AFTER)
    op.create_table(
        "deleted_task",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("finished_at", sa.Float(), nullable=True),
        sa.Column("gpu_uuids", sa.JSON(), nullable=False),
        sa.Column("energy_joules", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("deleted_task_by_end", "deleted_task", ["finished_at"])


def downgrade() -> None:
    """Jobs without GPUs are forgotten: an older version has no word for them."""
    op.drop_table("deleted_task")
    op.execute("DELETE FROM job WHERE required_gpus = 0")
    _replace(_AFTER, _BEFORE)


def _replace(before: str, after: str) -> None:
    """On SQLite as its documentation says (ALTER TABLE, section 7): the table is not made anew, since all that refers to
    its rows would be deleted with the old one."""
    conn = op.get_bind()
    if conn.dialect.name != "sqlite":
        op.drop_constraint(_NAME, "job", type_="check")
        op.create_check_constraint(_NAME, "job", after)
        return
    version = conn.execute(sa.text("PRAGMA schema_version")).scalar_one()
    conn.execute(sa.text("PRAGMA writable_schema = ON"))
    changed = conn.execute(
        sa.text("UPDATE sqlite_master SET sql = replace(sql, :before, :after) WHERE type = 'table' AND name = 'job'"),
        {"before": before, "after": after},
    )
    conn.execute(sa.text(f"PRAGMA schema_version = {version + 1}"))
    conn.execute(sa.text("PRAGMA writable_schema = OFF"))
    if changed.rowcount != 1:
        raise RuntimeError("the table of jobs is not described as it should be")
