"""Responses that list a job's files."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.scheduler.hosts.job_files import JobFolderListing
from schedulearn.scheduler.runtimes.contract import FileEntry, FileKind


class FileOut(AnswerModel):
    name: str
    path: str = Field(description="path for `files/{path}`")
    kind: FileKind
    size: int | None = Field(description="bytes of a file; null for other kinds")
    modified: At | None = Field(description="null for the folders `outputs` and `checkpoints`")
    host: str | None = Field(description="host of the file; null for the folders `outputs` and `checkpoints`")


class FilePage(AnswerModel):
    path: str = Field(description="path of the folder")
    items: list[FileOut]
    next: str | None = Field(description="value of `after` for the next page; null on the last")
    hosts: list[str] = Field(
        description="hosts with this folder: each part of a job on several hosts writes on its own host"
    )
    away: list[str] = Field(description="hosts that may have more files, and do not answer")

    @classmethod
    def of(cls, path: str, found: JobFolderListing) -> Self:
        path = path.strip("/")
        items = [
            _file(path if found.of_file else f"{path}/{entry.name}".lstrip("/"), host, entry)
            for host, entry in found.entries
        ]
        more = items[-1].name if found.more and items else None
        return cls(path=path, items=items, next=more, hosts=list(found.hosts), away=list(found.away))


def _file(path: str, host: str, entry: FileEntry) -> FileOut:
    return FileOut(
        name=_shown(entry.name),
        path=_shown(path),
        kind=entry.kind,
        size=entry.bytes if entry.kind is FileKind.FILE else None,
        modified=entry.modified_at if entry.modified_at else None,
        host=host or None,
    )


def _shown(name: str) -> str:
    """Return a name that can be shown.

    A file whose name is not UTF-8 can't be requested by it, only with its folder."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
