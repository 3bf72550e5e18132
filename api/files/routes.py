"""Routes for a job's outputs and checkpoints, while it runs and after."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import PurePosixPath
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from schedulearn.api.answers.file import FilePage
from schedulearn.api.answers.problem import problems
from schedulearn.api.files.ranges import NoSuchPart, asked_part
from schedulearn.api.problems import problem_response
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.hosts.job_files import OpenFile
from schedulearn.scheduler.runtimes.contract import FileKind

router = APIRouter(prefix="/api/v1/jobs/{job_id}/files", tags=["jobs"])

# Files of a job are a user's, and the page that shows them may do everything: a browser never runs them from here.
_INERT = {"content-security-policy": "sandbox; default-src 'none'", "cache-control": "private, no-cache"}

# Types that the page shows inline. No SVG: it may hold scripts.
_PICTURES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}

Host = Annotated[
    str | None, Query(max_length=200, description="only files on this host; a job may have files on several")
]


@router.get("", responses=problems(404, 410, 422, 502))
def list_files(
    request: Request,
    job_id: str,
    path: Annotated[str, Query(max_length=4096, description="`outputs`, `checkpoints`, or a folder below")] = "",
    host: Host = None,
    after: Annotated[str, Query(max_length=1000, description="last name of the previous page")] = "",
    limit: Annotated[
        int, Query(ge=0, le=1000, description="maximum number of entries; 0: only the hosts that have the folder")
    ] = 1000,
) -> FilePage:
    """List a folder of a job by name; without a path, its folders.

    The hosts on which the job ran are asked, which may take some seconds."""
    found = cluster_of(request).files.listing(job_id, path, host=host, after=after, limit=limit)
    return FilePage.of(path, found)


@router.get(
    "/{path:path}",
    response_class=Response,
    responses={206: {"description": "part of a file selected by `Range`"}, **problems(404, 410, 416, 422, 502)},
)
def get_file(request: Request, job_id: str, path: str, host: Host = None) -> Response:
    """Return a file, or a folder as a tar archive from one host.

    `Range`, also with `If-Range` and the `ETag` of an earlier response, selects a part of a file. A response that ends
    early was interrupted."""
    file = cluster_of(request).files.open(job_id, path, host=host)
    try:
        if file.entry.kind is FileKind.FOLDER:
            return _folder(file)
        return _file(file, request)
    except BaseException:
        file.close()
        raise


def _folder(file: OpenFile) -> Response:
    headers = {**_INERT, "content-disposition": _attachment(f"{PurePosixPath(file.path).name or 'files'}.tar")}
    return StreamingResponse(_stream(file, file.pack()), media_type="application/x-tar", headers=headers)


def _file(file: OpenFile, request: Request) -> Response:
    size, etag = file.entry.bytes, f'"{file.entry.bytes:x}-{round(file.entry.modified_at * 1e6):x}"'
    given = request.headers
    part = None
    if given.get("if-range", etag) == etag:
        try:
            part = asked_part(given.get("range"), size)
        except NoSuchPart:
            file.close()
            refusal = problem_response(
                416, "no_such_range", f"{file.path} has {size} bytes: the range is beyond its end"
            )
            refusal.headers["content-range"] = f"bytes */{size}"
            return refusal
    offset, length = (part.offset, part.length) if part else (0, size)
    headers = {
        **_INERT,
        "content-disposition": _attachment(PurePosixPath(file.path).name),
        "content-length": str(length),
        "accept-ranges": "bytes",
        "etag": etag,
    }
    if part:
        headers["content-range"] = f"bytes {offset}-{offset + length - 1}/{size}"
    chunks = file.read(offset, length)
    kind = _PICTURES.get(PurePosixPath(file.path).suffix.lower(), "application/octet-stream")
    return StreamingResponse(_stream(file, chunks), 206 if part else 200, media_type=kind, headers=headers)


class _Pieces:
    """Pieces of a file, read in threads: one at a time, and closed only when none reads."""

    def __init__(self, file: OpenFile, chunks: Iterator[bytes]) -> None:
        self._file = file
        self._chunks = chunks
        self._lock = threading.Lock()

    def next(self) -> bytes | None:
        with self._lock:
            return next(self._chunks, None)

    def close(self) -> None:
        with self._lock:
            if isinstance(self._chunks, Generator):
                self._chunks.close()
            self._file.close()


def _stream(file: OpenFile, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Return the pieces as a stream.

    The first piece is read before the response begins: a file that can't be read at all gives an error."""
    pieces = _Pieces(file, chunks)
    first = pieces.next()

    async def stream() -> AsyncIterator[bytes]:
        try:
            piece = first
            while piece is not None:
                yield piece
                piece = await asyncio.to_thread(pieces.next)
        finally:
            # Not awaited: a client that has gone cancels everything awaited, even while a thread still reads.
            asyncio.get_running_loop().run_in_executor(None, pieces.close)

    return stream()


def _attachment(name: str) -> str:
    return f"attachment; filename*=UTF-8''{quote(name.encode('utf-8', 'surrogateescape'), safe='')}"
