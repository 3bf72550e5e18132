"""Alembic's hook: runs migrations on the connection that `db.migrate` hands over."""

from alembic import context
from sqlmodel import SQLModel

from schedulearn.scheduler.store import models  # noqa: F401  (registers the tables)

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=SQLModel.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
