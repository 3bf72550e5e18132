"""Data sets and models, and what is said of content on its way in."""

from __future__ import annotations

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At


class DataVersionOut(AnswerModel):
    name: str
    version: int
    reference: str = Field(description="reference for the key `data` of jobs")
    digest: str = Field(description="digest of the content; equal files have equal digests")
    bytes: int
    files: int
    user: str = Field(description="user who pushed it, or owner of the job that made it")
    job_id: str | None = Field(description="ID of the job whose output it is; null: it was pushed")
    created_at: At


class DataSetItem(DataVersionOut):
    """Name of a data set or model, with its newest version."""

    versions: int = Field(description="number of versions")


class DataList(AnswerModel):
    items: list[DataSetItem] = Field(description="names in order, with the newest version of each")
    next: str | None = Field(description="value of `after` for the next page; null on the last")


class DataVersions(AnswerModel):
    items: list[DataVersionOut] = Field(description="newest first")


class MissingContent(AnswerModel):
    sha256: str
    size: int
    received: int = Field(description="bytes that are stored: continue from there")


class DataOffer(AnswerModel):
    version: DataVersionOut | None = Field(
        description="the stored version; null: send the missing content, then repeat the request"
    )
    missing: list[MissingContent]


class ContentReceived(AnswerModel):
    received: int = Field(description="stored bytes of a single file, or stored files of a batch")


class DataLimits(AnswerModel):
    """Limits of a version."""

    max_bytes: int
    max_files: int
