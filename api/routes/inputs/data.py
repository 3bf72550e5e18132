"""Data sets and models: pushed by content, so that only what is new is sent, listed, brought back and removed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import IO, Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.data import (
    ContentReceived,
    DataLimits,
    DataList,
    DataOffer,
    DataSetItem,
    DataVersionOut,
    DataVersions,
    MissingContent,
)
from schedulearn.api.answers.model import Answer
from schedulearn.api.answers.problem import problems
from schedulearn.api.edge.bodies import Bound
from schedulearn.api.large_bodies import body_as, check_keys, request_of
from schedulearn.api.state import actor_of, cluster_of
from schedulearn.scheduler.code.archive import Kind
from schedulearn.scheduler.code.store import check_room
from schedulearn.scheduler.data.manifest import BLOB, ManifestEntry, manifest_of
from schedulearn.scheduler.data.store import BATCH_BYTES, BATCH_FILES, DataStore
from schedulearn.scheduler.errors import InvalidError, TooLargeError
from schedulearn.scheduler.hosts.data.data_sets import Offer
from schedulearn.scheduler.specs.texts import whole
from schedulearn.scheduler.store.data import versions
from schedulearn.scheduler.store.data.versions import Version

router = APIRouter(prefix="/api/v1", tags=["data"])

_PIECE = 1 << 20
_SILENCE_S = 60.0
_AT_ONCE = 8
_UNBOUNDED = 1 << 50  # the store has the limit, which is a setting
_MANIFEST = Bound(128 << 20, 40_000_000)
_BATCH_ROOM = BATCH_BYTES + BATCH_FILES * 2048  # with the headers
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_TAR = {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}}
Name = Annotated[str, Path(max_length=200)]
Number = Annotated[int, Path(ge=1, le=10**9)]


class FileIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    path: str = Field(max_length=4096)
    size: Annotated[int, Field(ge=0, le=1 << 50), BeforeValidator(whole)]
    sha256: str = Field(pattern=f"^{BLOB}$")
    executable: bool = False


class ManifestIn(BaseModel):
    """Content of a version. Folders are named only if they are empty."""

    model_config = ConfigDict(extra="forbid", strict=True)

    files: Annotated[list[FileIn], FailFast()] = Field(default_factory=list)
    folders: Annotated[list[str], FailFast()] = Field(default_factory=list)
    links: dict[str, str] = Field(default_factory=dict, description="path -> target of the link, inside the data set")


def _check_manifest(body: object) -> None:
    """Raises InvalidError where each of many keys would make an error."""
    links = body.get("links") if isinstance(body, dict) else None
    if isinstance(links, dict) and not all(isinstance(target, str) for target in links.values()):
        raise InvalidError("links maps paths to targets: each value must be text", field="links")
    if isinstance(body, dict):
        check_keys({name: value for name, value in body.items() if name != "links"})


@router.get("/data")
def list_data(
    request: Request,
    after: Annotated[str, Query(max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> DataList:
    """Return data sets and models, each with its newest version."""
    with cluster_of(request).db.read() as conn:
        found = versions.newest(conn, limit + 1, after)
        many = versions.counts(conn, [each.name for each in found])
    items = [DataSetItem(**_shown(each), versions=many[each.name]) for each in found[:limit]]
    return DataList(items=items, next=found[limit - 1].name if len(found) > limit else None)


@router.get("/data-limits")
def data_limits(request: Request) -> DataLimits:
    """Return the limits of a version."""
    store = cluster_of(request).data.store
    return DataLimits(max_bytes=store.max_bytes, max_files=store.max_files)


@router.get("/data/{name}", responses=problems(404))
def show_data(request: Request, name: Name) -> DataVersions:
    """Return the versions of a data set or model, newest first.

    At most 1000 versions are returned."""
    with cluster_of(request).db.read() as conn:
        return DataVersions(items=[DataVersionOut(**_shown(each)) for each in versions.versions_of(conn, name)])


@router.post(
    "/data/{name}/versions",
    response_model=DataOffer,
    responses=problems(403, 413, 422, 507),
    max_body_size=_MANIFEST.size,
    openapi_extra=request_of(ManifestIn),
)
@needs(Access.USER)
def push_data(
    request: Request, name: Name, body: Annotated[ManifestIn, body_as(ManifestIn, _MANIFEST, _check_manifest)]
) -> Response:
    """Create a version, or return the missing content.

    If content is missing, nothing is stored. Send it to `/content`, then repeat the request. Unchanged content creates
    no new version."""
    data = cluster_of(request).data
    items = [ManifestEntry(f.path, Kind.FILE, f.size, f.executable, blob=f.sha256) for f in body.files]
    items += [ManifestEntry(path, Kind.FOLDER) for path in body.folders]
    items += [ManifestEntry(path, Kind.LINK, target=target) for path, target in body.links.items()]
    if len({item.path for item in items}) < len(items):
        raise InvalidError("a path is in the list twice", field="files")
    manifest = manifest_of(items, data.store.max_bytes, data.store.max_files)
    return data.push(name, manifest, actor_of(request), _offer)


@router.delete("/data/{name}", response_model=DataVersions, responses=problems(403, 404, 409))
@needs(Access.USER)
def remove_data(request: Request, name: Name, version: Annotated[int | None, Query(ge=1, le=10**9)] = None) -> Response:
    """Delete one version of a data set or model, or all versions.

    Only the owner and admins can do this. It is refused while an unfinished job or sweep needs a version. The response
    has the deleted versions. Their numbers are not used again."""

    def answer(gone: Sequence[Version]) -> Answer:
        return Answer(DataVersions(items=[DataVersionOut(**_shown(each)) for each in gone]))

    return cluster_of(request).data.remove(name, version, actor_of(request), answer)


_ARCHIVE: dict[int | str, dict[str, Any]] = {200: {"content": _TAR, "description": "a tar file"}, **problems(404, 422)}


@router.get("/data/{name}/{version}/archive", response_class=Response, responses=_ARCHIVE)
def data_archive(request: Request, name: Name, version: Number) -> Response:
    """Return the files of a version as a tar file."""
    cluster = cluster_of(request)
    with cluster.db.read() as conn:
        found = versions.find(conn, name, version)
    pieces = cluster.data.store.pack(cluster.data.store.manifest(found.digest))
    headers = {"content-disposition": f'attachment; filename="{found.name}-{found.version}.tar"'}
    return StreamingResponse(pieces, media_type="application/x-tar", headers=headers)


@router.put(
    "/content/{sha256}",
    responses=problems(409, 413, 422, 507),
    max_body_size=_UNBOUNDED,
    openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
)
@needs(Access.USER)
async def send_content(
    request: Request,
    sha256: Annotated[str, Path(pattern=f"^{BLOB}$")],
    size: Annotated[int, Query(ge=0, le=1 << 50, description="bytes of the whole file")],
    offset: Annotated[
        int, Query(ge=0, le=1 << 50, description="offset of the body in the file: `received` of `missing`")
    ] = 0,
) -> ContentReceived:
    """Store the content of a file.

    An interrupted upload can be resumed. Received content is kept for a day."""
    store = cluster_of(request).data.store
    async with _turns(request):
        received = await _append(request, store, sha256, size, offset)
    return ContentReceived(received=received)


@router.post(
    "/content",
    responses=problems(413, 422, 507),
    max_body_size=_UNBOUNDED,
    openapi_extra={"requestBody": {"required": True, "content": _TAR}},
)
@needs(Access.USER)
async def send_many(request: Request) -> ContentReceived:
    """Store the content of many small files, sent as a tar file.

    Each file is named by the SHA-256 of its content. At most 2000 files and 64 MiB are accepted."""
    store = cluster_of(request).data.store
    check_room(store.folder)
    async with _turns(request):
        with tempfile.TemporaryFile(dir=store.folder / "incoming") as file:
            await _receive(request, _bounded(file))
            count = await run_in_threadpool(_put_many, store, file)
    return ContentReceived(received=count)


def _put_many(store: DataStore, file: IO[bytes]) -> int:
    file.seek(0)
    return store.put_many(file)


def _bounded(file: IO[bytes]) -> Callable[[bytes], object]:
    def write(data: bytes) -> None:
        if file.tell() + len(data) > _BATCH_ROOM:
            raise TooLargeError(f"a batch has {BATCH_BYTES >> 20} MiB at most: send larger files one by one")
        file.write(data)

    return write


async def _append(request: Request, store: DataStore, name: str, size: int, offset: int) -> int:
    with store.append(name, size, offset) as upload:
        await _receive(request, upload.write)
        return await run_in_threadpool(upload.finish)


async def _receive(request: Request, write: Callable[[bytes], object]) -> None:
    """Gives the body to `write`, in pieces of a MiB. What came before it was cut is written."""
    pieces = request.stream()
    held = bytearray()
    try:
        while (piece := await _next(pieces)) is not None:
            held += piece
            if len(held) >= _PIECE:
                await run_in_threadpool(write, bytes(held))
                held.clear()
    except ClientDisconnect as error:
        raise InvalidError("the upload was interrupted") from error
    finally:
        if held:
            await run_in_threadpool(write, bytes(held))


async def _next(pieces: AsyncGenerator[bytes]) -> bytes | None:
    try:
        return await asyncio.wait_for(anext(pieces), _SILENCE_S)
    except StopAsyncIteration:
        return None
    except TimeoutError as error:
        raise InvalidError(
            f"nothing came for {_SILENCE_S:.0f} s: resume the upload after the received bytes"
        ) from error


def _turns(request: Request) -> asyncio.Semaphore:
    """So many uploads at a time."""
    state = request.app.state
    if not hasattr(state, "content_uploads"):
        state.content_uploads = asyncio.Semaphore(_AT_ONCE)
    turns: asyncio.Semaphore = state.content_uploads
    return turns


def _offer(offer: Offer) -> Answer:
    missing = [MissingContent(sha256=each.name, size=each.size, received=each.received) for each in offer.missing]
    stored = DataVersionOut(**_shown(offer.version)) if offer.version is not None else None
    return Answer(DataOffer(version=stored, missing=missing))


def _shown(version: Version) -> dict[str, Any]:
    return {**version._asdict(), "reference": version.reference}
