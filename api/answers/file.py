"""Responses that list a job's files."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.scheduler.hosts.job_files import Listing
from schedulearn.scheduler.runtimes.contract import FileEntry, FileKind


class FileOut(AnswerModel):
    name: str
    path: str = Field(description="by which `files/{path}` gives it")
    kind: FileKind
    size: int | None = Field(description="bytes of a file; null for everything else")
    modified: At | None = Field(description="null for the folders `outputs` and `checkpoints`")
    host: str | None = Field(description="where it is; null for the folders `outputs` and `checkpoints`")


class FilePage(AnswerModel):
    path: str = Field(description="what was listed")
    items: list[FileOut]
    next: str | None = Field(description="`after` of the next page; null: this is the last")
    hosts: list[str] = Field(description="those that have the folder: parts of a job on several hosts write there")
    away: list[str] = Field(description="hosts that may have further files, and do not answer")

    @classmethod
    def of(cls, path: str, found: Listing) -> Self:
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
