"""How GPUs of a host reach each other, their bus ids, and GPUs that operators close"""

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("host", sa.Column("topology", sa.Text(), nullable=False, server_default=""))
    op.add_column("gpu", sa.Column("pci", sa.String(), nullable=False, server_default=""))
    op.add_column("gpu", sa.Column("cordoned", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("gpu", sa.Column("drain_until", sa.Float(), nullable=True))


def downgrade() -> None:
    for name in ("drain_until", "cordoned", "pci"):
        op.drop_column("gpu", name)
    op.drop_column("host", "topology")
