"""The built page: its files, compressed, and its frame under every deep link."""

from __future__ import annotations

import gzip
import mimetypes
import secrets
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from schedulearn.api import problems
from schedulearn.api.access.permissions import Access, needs

STATIC = Path(__file__).parents[1] / "static"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'{nonce}; img-src 'self'; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_NONCE = "STYLE_NONCE"  # in index.html; the page's own components make style elements with it
_FILES = 200  # kept in memory, compressed: all that the page has
_SMALL = 1000  # bytes; what is smaller gains nothing by compression

router = APIRouter(include_in_schema=False)


@router.get("/ui")
@router.get("/")
@needs(Access.NOTHING)
async def root() -> Response:
    return RedirectResponse("/ui/")


@router.get("/ui/{path:path}")
@needs(Access.NOTHING)
async def page(request: Request, path: str) -> Response:
    """A file of the built page; any other path is a deep link, which the page itself resolves."""
    file = _file(path)
    if file is not None:
        plain, packed = _contents(file, file.stat().st_mtime_ns)
        lasting = "public, max-age=31536000, immutable" if path.startswith("assets/") else "no-cache"
        headers = {"cache-control": lasting, "vary": "accept-encoding"}
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        if packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, headers={**headers, "content-encoding": "gzip"}, media_type=kind)
        return Response(plain, headers=headers, media_type=kind)
    if path.startswith("assets/"):  # of another version: to the page, its frame would look like broken code
        return problems.problem_response(404, "not_found", f"the page has no file {path}: reload it")
    if (STATIC / "index.html").is_file():
        return _index()
    return problems.problem_response(404, "page_not_built", "the page is not built: run `make ui`")


def _file(path: str) -> Path | None:
    """The file of the page with this path, if there is one."""
    if path in ("", "index.html"):
        return None
    try:
        file = (STATIC / path).resolve()
        return file if file.is_relative_to(STATIC.resolve()) and file.is_file() else None
    except (OSError, ValueError):
        return None  # no file can be called so


@lru_cache(_FILES)
def _contents(file: Path, version: int) -> tuple[bytes, bytes | None]:
    """A file as it is, and compressed once for all who ask. `version`: a page that is built anew is read anew."""
    plain = file.read_bytes()
    return plain, gzip.compress(plain, 9) if len(plain) > _SMALL else None


def _index() -> Response:
    """The page's frame, with a nonce of its own: without `unsafe-inline` no style of an attacker counts."""
    nonce = secrets.token_urlsafe(16)
    text = (STATIC / "index.html").read_text().replace(_NONCE, nonce)
    policy = CSP.format(nonce=f" 'nonce-{nonce}'")
    return HTMLResponse(text, headers={"cache-control": "no-store", "content-security-policy": policy})
