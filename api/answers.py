"""JSON answers, written by pydantic's serializer: several times faster than the standard library's on long lists."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json
from starlette.responses import JSONResponse


class JsonResponse(JSONResponse):
    def render(self, content: Any) -> bytes:
        return json_bytes(content)


def json_bytes(content: Any) -> bytes:
    """A number that JSON has no word for becomes null."""
    return to_json(content, inf_nan_mode="null")
