"""An account has an id; what a removed one left is not its namesake's"""

import re

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

_REMOVED = re.compile(r"User (.+) was removed, with all tokens\.")
_LEFT = (
    ("job", "user", "submitted_at"),
    ("sweep", "user", "created_at"),
    ("data_version", "user", "created_at"),
    ("deleted_task", "user", "created_at"),
    ("secret", "owner", "created_at"),
)
"""Table, column with whose a row is, and when it was made."""


def upgrade() -> None:
    op.add_column("account", sa.Column("id", sa.Integer(), nullable=True))
    op.add_column("account", sa.Column("removed_at", sa.Float(), nullable=True))
    conn = op.get_bind()
    account = sa.table("account", *map(sa.column, ("name", "id", "role", "created_at", "removed_at")))
    since = {}
    rows = conn.execute(sa.select(account.c.name, account.c.created_at).order_by(account.c.created_at)).all()
    for number, (name, created_at) in enumerate(rows, start=1):
        conn.execute(sa.update(account).where(account.c.name == name).values(id=number))
        since[name] = created_at
    _retire(conn, account, since)
    with op.batch_alter_table("account") as batch:
        batch.alter_column("id", nullable=False, existing_type=sa.Integer())
    op.create_index("account_by_id", "account", ["id"], unique=True)


def _retire(conn: sa.Connection, account: sa.TableClause, since: dict[str, float]) -> None:
    """What belongs to a name whose account was removed, and is older than an account that has the name now."""
    event = sa.table("event", *map(sa.column, ("id", "kind", "message", "at")))
    removed = sa.select(event.c.message, event.c.at).where(event.c.kind == "user.removed").order_by(event.c.id)
    last = {found[1]: at for message, at in conn.execute(removed) if (found := _REMOVED.fullmatch(message))}
    for number, (name, at) in enumerate(last.items(), start=len(since) + 1):
        retired = f"{name[:80]}~{number}"
        values = {"name": retired, "id": number, "role": "user", "created_at": at, "removed_at": at}
        conn.execute(sa.insert(account).values(**values))
        for table, column, made in _LEFT:
            rows = sa.table(table, sa.column(column), sa.column(made))
            old = rows.c[column] == name
            if name in since:
                old &= rows.c[made] < since[name]
            conn.execute(sa.update(rows).where(old).values({column: retired}))


def downgrade() -> None:
    op.execute("DELETE FROM account WHERE removed_at IS NOT NULL")
    op.drop_index("account_by_id", "account")
    op.drop_column("account", "removed_at")
    op.drop_column("account", "id")
