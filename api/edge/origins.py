"""Middleware that refuses requests from other sites and unknown proxies.

It refuses what a page of another site made a browser send. It also refuses what came through a proxy that the settings
do not name. Both rules apply whoever sends the request.

It is a pure ASGI layer before the guard, so that no route and no socket can be forgotten. It does not rely on Origin
alone, which a browser leaves out now and then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from schedulearn.api.edge.headers import first_values
from schedulearn.api.problems import problem_response

_SAFE = ("GET", "HEAD", "OPTIONS", "TRACE")
_FOREIGN = ("cross-site", "same-site")
_FORWARDING = frozenset(
    {"forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "x-original-url"}
)
_OURS = "/api/"
"""Prefix below which a body must be declared as JSON, which no form of a page can do.

The original's routes never required that."""
_ARCHIVES = ("/api/v1/code", "/api/v1/content")
_CONTENT = "/api/v1/content/"
_TAR = ("application/x-tar", "application/gzip", "application/octet-stream")
"""Content types of an archive, or of one file. A form of a page can't send these either."""

Refusal = tuple[int, str, str]
"""Status, code and detail of a problem."""


class Origins:
    """Middleware that checks where requests come from.

    `behind_proxy`: a proxy may be in front of the service, which requires a token from everybody. `pages`: origins of
    other pages that may use it, without the session of its own page."""

    def __init__(self, app: ASGIApp, *, behind_proxy: bool, pages: Collection[str] = ()) -> None:
        self.app = app
        self.behind_proxy = behind_proxy
        self.pages = frozenset(pages)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope, first_values(scope)) if scope["type"] in ("http", "websocket") else None
        if refusal is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4403, "reason": refusal[2]})
        else:
            await problem_response(*refusal)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> Refusal | None:
        if not self.behind_proxy and (forwarded := forwarding_header(headers)) is not None:
            told = f"the request came through a proxy (header {forwarded}): set behind_proxy, and a token"
            return 403, "through_a_proxy", told
        if scope["type"] == "http" and scope["method"] in _SAFE:
            return None
        if headers.get("sec-fetch-site", "").lower() in _FOREIGN and not self._is_known(headers):
            return 403, "foreign_origin", "pages of other sites may not use this service"
        if scope["type"] == "http" and scope["path"].startswith(_OURS) and _has_body(headers):
            return _wrong_kind(scope["path"], headers)
        return None

    def _is_known(self, headers: Mapping[str, str]) -> bool:
        """Return whether the request is from a page that may use the service.

        With a cookie it would act as the user who is logged in."""
        return headers.get("origin", "") in self.pages and "cookie" not in headers


def forwarding_header(headers: Mapping[str, str]) -> str | None:
    """Return the header by which a proxy says that it passed the request on; None if there is none."""
    return None if _FORWARDING.isdisjoint(headers) else min(_FORWARDING.intersection(headers))


def _wrong_kind(path: str, headers: Mapping[str, str]) -> Refusal | None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if path in _ARCHIVES or path.startswith(_CONTENT):
        if kind in _TAR:
            return None
        return 415, "unsupported_media_type", "send a tar file, with the header Content-Type: application/x-tar"
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return None
    return 415, "unsupported_media_type", "send JSON, with the header Content-Type: application/json"


def _has_body(headers: Mapping[str, str]) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0").strip() != "0"
