"""Table of the versions of data sets and models."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index, text
from sqlmodel import Field, SQLModel

from schedulearn.scheduler.store.columns import InstantColumn


class DataVersion(SQLModel, table=True):
    """Version of a data set or model.

    A row stays when its version is removed, so that no number is used twice."""

    __tablename__ = "data_version"
    __table_args__ = (
        Index("data_version_by_digest", "digest"),
        Index("data_version_by_job", "job_id", sqlite_where=text("job_id IS NOT NULL"),
              postgresql_where=text("job_id IS NOT NULL")),
    )  # fmt: skip

    name: str = Field(primary_key=True)
    version: int = Field(primary_key=True)
    digest: str
    """Digest of its manifest."""
    bytes: int = Field(sa_type=BigInteger)
    files: int
    user: str
    """User who pushed it, or owner of the job that made it."""
    job_id: str | None = None
    """The job whose output it is."""
    created_at: float = Field(sa_type=InstantColumn)
    removed_at: float | None = Field(default=None, sa_type=InstantColumn)
