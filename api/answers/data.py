"""Data sets and models, and what is said of content on its way in."""

from __future__ import annotations

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At


class DataVersionOut(AnswerModel):
    name: str
    version: int
    reference: str = Field(description="as jobs name it in `data`")
    digest: str = Field(description="of its content: the same files have the same")
    bytes: int
    files: int
    user: str = Field(description="who pushed it, or whose job made it")
    job_id: str | None = Field(description="the job whose output it is; null: it was pushed")
    created_at: At


class DataSetItem(DataVersionOut):
    """A name, with its newest version."""

    versions: int = Field(description="how many there are")


class DataList(AnswerModel):
    items: list[DataSetItem] = Field(description="by name, with the newest version of each")
    next: str | None = Field(description="the `after` of the next page; null: this is the last one")


class DataVersions(AnswerModel):
    items: list[DataVersionOut] = Field(description="the newest first")


class MissingContent(AnswerModel):
    sha256: str
    size: int
    received: int = Field(description="bytes that are here: go on from there")


class DataOffer(AnswerModel):
    version: DataVersionOut | None = Field(description="it is stored; null: send what is missing, then ask again")
    missing: list[MissingContent]


class ContentReceived(AnswerModel):
    received: int = Field(description="bytes of one file that are here, or files of a batch")


class DataLimits(AnswerModel):
    """What one version may have."""

    max_bytes: int
    max_files: int
