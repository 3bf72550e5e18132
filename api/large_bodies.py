"""Parser of large request bodies.

It parses and checks them in a thread, one at a time. No step holds up the event loop.
"""

from __future__ import annotations

import json
import json.scanner
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.concurrency import run_in_threadpool

from schedulearn.api.edge.bodies import Bound
from schedulearn.api.problems import InvalidBody
from schedulearn.api.turns import turns_of
from schedulearn.scheduler.core.plain_errors import faults_of
from schedulearn.scheduler.errors import InvalidError

T = TypeVar("T")

MANY = Bound(2 << 20, 500_000)
"""Limit of a batch of jobs or a sweep with many runs.

The database stores that many within 0.1 s, while other requests wait for it."""
_AT_ONCE = 200_000
"""Maximum values that one call parses, which takes about 25 ms."""
_MAX_KEYS = 2000
_CODES = (b",", b"[", b"{")


class _Patient(json.JSONDecoder):
    """Decoder with the scanner in pure Python: 5 times as slow, but no step takes long."""

    def __init__(self) -> None:
        super().__init__()
        make: Callable[[Any], Any] = json.scanner.py_make_scanner  # type: ignore[attr-defined]
        self.scan_once = make(self)


def decoded(body: bytes) -> Any:
    """Decode JSON. Raises InvalidError."""
    try:
        if sum(map(body.count, _CODES)) <= _AT_ONCE:
            return from_json(body)
        return _Patient().decode(body.decode())
    except RecursionError as error:
        raise InvalidError("the body is nested too deeply", field="body") from error
    except ValueError as error:
        raise InvalidError(f"the body is not JSON: {error}", field="body") from error


def check_keys(value: Any) -> None:
    """Raise InvalidError for an object with more keys than any model has.

    Otherwise validation would create an error for each of them."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            if len(each) > _MAX_KEYS:
                raise InvalidError(f"an object of the body has {len(each)} keys; at most {_MAX_KEYS} are taken")
            rest += each.values()
        elif isinstance(each, list):
            rest += each


def body_as(kind: type[T], bound: Bound = MANY, check: Callable[[Any], None] = check_keys) -> Any:
    """Return a dependency that parses the body as `kind`. Its route holds a turn until its function returns."""
    adapter: TypeAdapter[T] = TypeAdapter(kind)

    def parse(body: bytes) -> T:
        bound.check(body)
        value = decoded(body)
        check(value)
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            raise InvalidBody(faults_of(error), kind) from error

    async def parsed(request: Request) -> AsyncIterator[T]:
        body = await request.body()
        async with turns_of(request).large(request):
            yield await run_in_threadpool(parse, body)

    return Depends(parsed, scope="function")


PARSED_BY_HAND: dict[type[BaseModel], None] = {}
"""Models of requests that routes parse by hand, in the order of the routes."""


def request_of(model: type[BaseModel], *, several: bool = False) -> dict[str, Any]:
    """Return the OpenAPI part of a route that parses its body itself. `openapi.complete` adds the model."""
    PARSED_BY_HAND[model] = None
    one = {"$ref": f"#/components/schemas/{model.__name__}"}
    schema = {"type": "array", "items": one} if several else one
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
