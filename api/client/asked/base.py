"""Interface between the endpoints and the transport."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Generic, TypeVar

from schedulearn.api.client.calls import Call
from schedulearn.api.client.transport import Json

J = TypeVar("J")
"""A JSON object; for `AsyncClient` an awaitable of one, as for the others."""
L = TypeVar("L")
"""A list of JSON objects."""
N = TypeVar("N")
"""No result, once the call is done."""
T = TypeVar("T")
"""Text."""

Steps = Generator[Call, Json, Json]
"""Requests, each of which may depend on the response to the previous one, and their result."""


class Asked(Generic[J, L, N, T]):
    """Requests that a client must provide for the endpoints.

    A path is below /api/v1, unless it begins with "/"."""

    def _object(self, method: str, path: str, **options: Any) -> J:
        raise NotImplementedError

    def _list(self, method: str, path: str, **options: Any) -> L:
        raise NotImplementedError

    def _nothing(self, method: str, path: str, **options: Any) -> N:
        raise NotImplementedError

    def _text(self, path: str, **options: Any) -> T:
        raise NotImplementedError

    def _steps(self, steps: Steps) -> J:
        raise NotImplementedError


def page_options(states: Iterable[str], user: str | None, cursor: str | None, limit: int) -> Json:
    """Return the query of a list that comes newest first."""
    given = {"state": list(states), "user": user, "cursor": cursor, "limit": limit}
    return {key: value for key, value in given.items() if value}


def every_page(path: str, asked: Json) -> Generator[Call, Json, list[Json]]:
    """Request all pages of a list, and return their responses."""
    pages = [(yield Call("GET", path, asked))]
    while after := pages[-1]["next"]:
        pages.append((yield Call("GET", path, {**asked, "after": after})))
    return pages
