"""Pages of the service at a port's address, instead of the job's."""

from __future__ import annotations

from html import escape

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response

from schedulearn.api.problems import problem_response

_CSP = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_AGAIN_S = 2
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:15vh auto;max-width:36em;padding:0 1em;color-scheme:light dark}"
    "h1{font-size:1.3em}"
)


def told(
    headers: Headers, status: int, code: str, detail: str, *, link: tuple[str, str] | None = None, again: bool = False
) -> Response:
    """Return a page for clients that can show one, else a problem document.

    `link`: address and text. `again`: the page tries again by itself."""
    if "text/html" not in headers.get("accept", ""):
        return problem_response(status, code, detail)
    refresh = f'<meta http-equiv="refresh" content="{_AGAIN_S}">' if again else ""
    more = f'<p><a href="{escape(link[0])}">{escape(link[1])}</a></p>' if link else ""
    if again:
        more += f"<p>This page tries again every {_AGAIN_S} seconds.</p>"
    sentence = escape(detail[:1].upper() + detail[1:])
    body = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Schedulearn</title>{refresh}'
        f"<style>{_STYLE}</style></head><body><h1>Schedulearn</h1><p>{sentence}.</p>{more}</body></html>"
    )
    return HTMLResponse(
        body,
        status,
        headers={
            "cache-control": "no-store",
            "content-security-policy": _CSP,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
        },
    )
