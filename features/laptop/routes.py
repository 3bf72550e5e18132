"""Routes of the wheel. They need no token: the wheel holds only the program."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from schedulearn.api.access.permissions import Access, needs
from schedulearn.api.answers.model import AnswerModel
from schedulearn.api.answers.problem import problems
from schedulearn.features.laptop.wheel import WheelCache
from schedulearn.scheduler.errors import NotFoundError

router = APIRouter()

_WHEEL = WheelCache()


class ClientOut(AnswerModel):
    version: str = Field(description="version of the service and of its wheel")
    path: str = Field(description="path of the wheel at this service")
    bytes: int
    sha256: str = Field(description="hash of the wheel, in hexadecimal digits")
    certificate: str | None = Field(
        description="fingerprint for SCHEDULEARN_CA; null: a public authority signed the certificate, or there is no "
        "TLS"
    )


@router.get("/api/v1/client", tags=["people"], responses=problems(404))
@needs(Access.NOTHING)
def describe_client(request: Request) -> ClientOut:
    """Return the wheel of the command line that this service offers."""
    wheel = _WHEEL.wheel()
    return ClientOut(
        version=wheel.version,
        path=f"/client/{wheel.name}",
        bytes=len(wheel.content),
        sha256=wheel.sha256,
        certificate=request.app.state.fingerprint,
    )


@router.api_route("/client/{name}", methods=["GET", "HEAD"], include_in_schema=False)
@needs(Access.NOTHING)
def download(request: Request, name: str) -> Response:
    """Return the wheel. Installers check its name, so any other is unknown."""
    wheel = _WHEEL.wheel()
    if name != wheel.name:
        raise NotFoundError(f"there is no {name!r} here: this service offers /client/{wheel.name}")
    tag = f'"{wheel.sha256}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if request.method == "HEAD":
        headers["content-length"] = str(len(wheel.content))
        return Response(headers=headers, media_type="application/octet-stream")
    return Response(wheel.content, headers=headers, media_type="application/octet-stream")
