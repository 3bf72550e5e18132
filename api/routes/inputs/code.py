"""The code that jobs bring along: sent once, named by its digest, and had back as it was."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import AnswerModel
from schedulearn.api.answers.problem import problems
from schedulearn.api.state import cluster_of
from schedulearn.scheduler.code.archive import DIGEST
from schedulearn.scheduler.code.store import CodeStore, StoredCode, Upload
from schedulearn.scheduler.errors import InvalidError, NotFoundError

router = APIRouter(prefix="/api/v1/code", tags=["code"])

_PIECE = 1 << 20
_SILENCE_S, _WHOLE_S = 60.0, 3600.0
_AT_ONCE = 4
_UNBOUNDED = 1 << 50  # the store has the limit, which is a setting
_TAR = {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}
Digest = Annotated[str | None, Query(pattern=f"^{DIGEST}$", description="expected digest of the archive")]


class StoredCodeOut(AnswerModel):
    digest: str = Field(description="digest for the key `code` of a job")
    bytes: int


class CodeLimits(AnswerModel):
    """Limits of uploads, and defaults for jobs."""

    max_bytes: int = Field(description="maximum bytes of all files of an archive")
    max_files: int
    default_image: str = Field(description="image of jobs that name none")
    stored: int = Field(description="number of stored archives")
    stored_bytes: int


@router.get("")
def limits(request: Request) -> CodeLimits:
    """Return the limits of code, and the stored amount."""
    cluster = cluster_of(request)
    stored = cluster.code.all()
    return CodeLimits(
        max_bytes=cluster.code.max_bytes,
        max_files=cluster.code.max_files,
        default_image=cluster.settings.default_image,
        stored=len(stored),
        stored_bytes=sum(each.bytes for each in stored),
    )


@router.post(
    "",
    status_code=201,
    responses=problems(413, 422, 507),
    max_body_size=_UNBOUNDED,
    openapi_extra={"requestBody": {"required": True, "content": _TAR}},
)
@needs(Access.USER)
async def upload(request: Request, digest: Digest = None) -> StoredCodeOut:
    """Store code from a tar file, optionally compressed by gzip.

    The response has the digest of the files in the service's own format. Identical files are stored once. Nothing is
    kept of an upload that is interrupted, too large or harmful."""
    store = cluster_of(request).code
    async with _turns(request):
        stored = await _receive(request, store, digest)
    return StoredCodeOut(digest=stored.digest, bytes=stored.bytes)


def _turns(request: Request) -> asyncio.Semaphore:
    """So many uploads at a time: each may need some room until it is stored."""
    state = request.app.state
    if not hasattr(state, "uploads"):
        state.uploads = asyncio.Semaphore(_AT_ONCE)
    turns: asyncio.Semaphore = state.uploads
    return turns


async def _receive(request: Request, store: CodeStore, digest: str | None) -> StoredCode:
    with store.receive() as archive:
        end = time.monotonic() + _WHOLE_S
        pieces = request.stream()
        held = bytearray()
        try:
            while (piece := await _next(pieces, end)) is not None:
                held += piece
                if len(held) >= _PIECE:
                    await run_in_threadpool(archive.write, bytes(held))
                    held.clear()
        except ClientDisconnect as error:
            raise InvalidError("the upload was interrupted, and nothing was stored: send it again") from error
        return await run_in_threadpool(_finish, archive, bytes(held), digest)


async def _next(pieces: AsyncGenerator[bytes], end: float) -> bytes | None:
    try:
        return await asyncio.wait_for(anext(pieces), min(_SILENCE_S, end - time.monotonic()))
    except StopAsyncIteration:
        return None
    except TimeoutError as error:
        raise InvalidError("the upload took too long, and nothing was stored: send it again") from error


def _finish(archive: Upload, rest: bytes, digest: str | None) -> StoredCode:
    archive.write(rest)
    return archive.finish(digest)


@router.get("/{digest}", responses=problems(404, 422))
def show(request: Request, digest: str) -> StoredCodeOut:
    """Check whether an archive is stored.

    Clients with the same files need not send them again."""
    found = cluster_of(request).code.find(digest)
    if found is None:
        raise NotFoundError(f"the code {digest} is not stored here, or not any more")
    cluster_of(request).code.use(digest)
    return StoredCodeOut(digest=found.digest, bytes=found.bytes)


_ARCHIVE: dict[int | str, dict[str, Any]] = {200: {"content": _TAR, "description": "a tar file"}, **problems(404, 422)}


@router.get("/{digest}/archive", response_class=Response, responses=_ARCHIVE)
def archive(request: Request, digest: str) -> Response:
    """Return stored code as a tar file."""
    store = cluster_of(request).code
    if store.find(digest) is None:
        raise NotFoundError(f"the code {digest} is not stored here, or not any more")
    name = f"{digest.removeprefix('sha256:')[:12]}.tar"
    return FileResponse(store.path(digest), media_type="application/x-tar", filename=name)
