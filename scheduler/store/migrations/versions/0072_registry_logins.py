"""Logins to registries of images, and images that were pulled with them"""

import sqlalchemy as sa
from alembic import op

revision = "0072"
down_revision = "0071"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "registry_login",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("group", sa.String(), nullable=False),
        sa.Column("username", sa.Text(), nullable=False),
        sa.Column("password", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("changed_at", sa.Float(), nullable=False),
        sa.UniqueConstraint("host", "user", "group"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "private_image",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("engine_id", sa.String(), nullable=False),
        sa.Column("image_id", sa.String(), nullable=False),
        sa.Column("login_id", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.UniqueConstraint("engine_id", "image_id", "login_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "private_pull",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("engine_id", sa.String(), nullable=False),
        sa.Column("image", sa.String(), nullable=False),
        sa.Column("login_id", sa.Integer(), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("began_at", sa.Float(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_private_pull_engine_id"), "private_pull", ["engine_id"])
