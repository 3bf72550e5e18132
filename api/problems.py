"""Errors as RFC 9457 problem documents with a stable `code`.

A bad request never becomes a 500.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, TypeVar, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import Match

from schedulearn.api.answers.problem import FieldError, Problem
from schedulearn.scheduler.core.model_keys import keys_at
from schedulearn.scheduler.core.plain_errors import faults_of, plain_message
from schedulearn.scheduler.core.suggestions import did_you_mean
from schedulearn.scheduler.errors import InvalidError, QuotaError, SchedulearnError

T = TypeVar("T")

_EXACT = 1 << 53  # whole numbers below are exact as floats
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_TOLD = 50  # maximum errors in one response
_IN_DETAIL = 5
_LONGEST, _LONGEST_SENTENCE = 200, 2000  # maximum characters of text that the client may have written


class ProblemResponse(Response):
    media_type = "application/problem+json"

    def render(self, content: Problem) -> bytes:
        return problem_json(content)


class InvalidBody(Exception):
    """A body does not have the type that its route takes, `kind`."""

    def __init__(self, errors: Sequence[ErrorDetails], kind: Any) -> None:
        super().__init__(f"{len(errors)} errors")
        self.errors = errors
        self.kind = kind


def problem_response(status: int, code: str, detail: str, errors: list[FieldError] | None = None) -> ProblemResponse:
    title = HTTPStatus(status).phrase
    problem = Problem(title=title, status=status, detail=_writable(detail), code=code, errors=errors)
    return ProblemResponse(problem, status_code=status)


def unforeseen_problem(reference: str) -> Problem:
    detail = f"internal error: the service's log has the details under the reference {reference}"
    return Problem(title=HTTPStatus(500).phrase, status=500, detail=detail, code="internal", reference=reference)


def problem_json(problem: Problem) -> bytes:
    return problem.model_dump_json(exclude_none=True).encode()


def _writable(text: str) -> str:
    """Return text that can be encoded, whatever a request held: lone surrogates are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _error(field: str, message: str, kind: str) -> FieldError:
    return FieldError(field=_writable(field), message=_writable(message), type=kind)


def parse_body(adapter: TypeAdapter[T], kind: Any, body: bytes) -> T:
    """Parse a body. Accepts 1.0 as 1, as schemas do and strict models don't. Raises InvalidBody."""
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        found = faults_of(error)
        if not any(each["type"] == "int_type" for each in found):
            raise InvalidBody(found, kind) from error
    try:
        return adapter.validate_json(json.dumps(json.loads(body, parse_float=_number)))
    except ValidationError as error:
        raise InvalidBody(faults_of(error), kind) from error


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


async def check_query(connection: HTTPConnection) -> None:
    """Refuse unknown query parameters: a misspelt filter would have no effect.

    This is a dependency of all routes. Those of the page are not in the schema, and may have any query."""
    route = connection.scope["route"] if connection.scope["query_string"] else None
    if route is not None and getattr(route, "include_in_schema", True):
        refuse_unknown(connection, [field.alias for field in route.dependant.query_params])


def refuse_unknown(connection: HTTPConnection, known: Iterable[str]) -> None:
    """Raise InvalidError for an unknown query parameter."""
    known = list(known)
    for name in connection.query_params:
        if name not in known:
            valid = ", ".join(known) or "none"
            hint = did_you_mean(name, known)
            detail = f"there is no query parameter {_short(name)!r}{hint}; this route takes: {valid}"
            raise InvalidError(detail, field=name)


def _validation_problem(found: Sequence[ErrorDetails], kind: Any = None) -> ProblemResponse:
    """Return a problem that names each invalid field.

    It does not repeat the input, which may hold secrets or not be text."""
    errors = []
    for item in found[:_TOLD]:
        place = item["loc"]
        message = plain_message(item, keys_at(kind, place[:-1]))
        where = ".".join(_short(str(part)) for part in place)
        errors.append(_error(where, _short(message, _LONGEST_SENTENCE), str(item["type"])))
    told = [f"{e.field}: {e.message}" if e.field else e.message for e in errors[:_IN_DETAIL]]
    if len(found) > _IN_DETAIL:
        told.append(f"and {len(found) - _IN_DETAIL} more")
    return problem_response(422, "invalid", "; ".join(told), errors)


def _short(text: str, most: int = _LONGEST) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _body_kind(request: Request) -> Any:
    """Return the type of a route's body, if FastAPI parses it."""
    field = getattr(request.scope.get("route"), "body_field", None)
    return field.field_info.annotation if field is not None else None


def _methods(app: FastAPI, request: Request) -> list[str]:
    """Return the methods of a path. Each of its routes knows only its own."""
    scopes = {method: {**request.scope, "method": method} for method in _METHODS}
    return [m for m, scope in scopes.items() if any(route.matches(scope)[0] is Match.FULL for route in app.routes)]


def install(app: FastAPI) -> None:
    @app.exception_handler(SchedulearnError)
    async def _ours(_: Request, error: SchedulearnError) -> Response:
        detail = _short(error.detail, _LONGEST_SENTENCE)
        field = _short(error.field) if error.field else None
        errors = [_error(field, detail, error.code)] if field else None
        response = problem_response(error.http_status, error.code, detail, errors)
        if isinstance(error, QuotaError):
            response.headers["retry-after"] = str(math.ceil(error.retry_after))
        return response

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        # The first part of a place says where it is: in the body, the query, the path or a header.
        errors = [cast(ErrorDetails, {**found, "loc": found["loc"][1:]}) for found in error.errors()]
        return _validation_problem(errors, _body_kind(request))

    @app.exception_handler(InvalidBody)
    async def _invalid_body(_: Request, error: InvalidBody) -> Response:
        return _validation_problem(error.errors, error.kind)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
        response = problem_response(error.status_code, code, str(error.detail))
        response.headers.update(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["allow"] = ", ".join(_methods(app, request))
        return response

    @app.exception_handler(Exception)
    async def _to_the_last_resort(_: Request, error: Exception) -> Response:
        raise error
