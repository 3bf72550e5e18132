"""Errors as RFC 9457 problem documents with a stable `code`. A bad request never becomes a 500."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from schedulearn.scheduler.errors import SchedulearnError

log = logging.getLogger(__name__)


class ProblemResponse(JSONResponse):
    media_type = "application/problem+json"


def problem_response(
    status: int, code: str, detail: str, errors: list[dict[str, str]] | None = None
) -> ProblemResponse:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    if errors is not None:
        body["errors"] = errors
    return ProblemResponse(body, status_code=status)


def validation_problem(error: ValidationError | RequestValidationError, status: int = 422) -> ProblemResponse:
    """Names each field that is wrong. The input itself is not repeated: it may hold secrets, or not be text at all."""
    found = error.errors(include_url=False) if isinstance(error, ValidationError) else error.errors()
    errors = []
    for item in found:
        where = ".".join(str(part) for part in item["loc"] if part != "body")
        message = str(item["msg"]).removeprefix("Value error, ")
        errors.append({"field": where, "message": message, "type": str(item["type"])})
    detail = "; ".join(f"{e['field']}: {e['message']}" if e["field"] else e["message"] for e in errors[:5])
    return problem_response(status, "invalid", detail, errors)


def install(app: FastAPI) -> None:
    @app.exception_handler(SchedulearnError)
    async def _ours(_: Request, error: SchedulearnError) -> Response:
        errors = [{"field": error.field, "message": error.detail, "type": error.code}] if error.field else None
        return problem_response(error.http_status, error.code, error.detail, errors)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> Response:
        return validation_problem(error)

    @app.exception_handler(ValidationError)
    async def _invalid_body(_: Request, error: ValidationError) -> Response:
        return validation_problem(error)

    @app.exception_handler(HTTPException)
    async def _http(_: Request, error: HTTPException) -> Response:
        code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_")
        return problem_response(error.status_code, code, str(error.detail))

    @app.exception_handler(Exception)
    async def _ours_to_mend(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return problem_response(500, "internal", "a fault of Schedulearn; its log has the details")
