"""OpenAPI document, with facts that FastAPI can't know of routes."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from schedulearn.api.access.permissions import Access, Rules
from schedulearn.api.large_bodies import PARSED_BY_HAND

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The service's own token, or one from `POST /api/v1/tokens`. The account that runs a service "
        "on loopback needs none.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "",  # with TLS another one
        "description": "Session cookie from `POST /api/v1/session`.",
    },
    "jobToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "SCHEDULEARN_JOB_TOKEN of one job, valid only for its reports.",
    },
}


def complete(app: FastAPI) -> None:
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _add_bodies(make())
            _name_problems(make())
            _leave_out_null(make())
            _say_security(make(), app.state.rules, needs_token=app.state.token_required, cookie=app.state.cookie)
        return make()

    app.openapi = openapi  # type: ignore[method-assign]


def _add_bodies(document: dict[str, Any]) -> None:
    """Add the models of routes that parse their body themselves."""
    for model in PARSED_BY_HAND:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        for name, part in {**schema.pop("$defs", {}), model.__name__: schema}.items():
            document["components"]["schemas"].setdefault(name, part)


def _name_problems(document: dict[str, Any]) -> None:
    """Give problems their own media type."""
    for methods in document["paths"].values():
        for route in methods.values():
            for response in route["responses"].values():
                content = response.get("content", {})
                if content.get("application/json", {}).get("schema") == _PROBLEM:
                    content["application/problem+json"] = content.pop("application/json")


def _leave_out_null(document: dict[str, Any]) -> None:
    """Remove null from the types of optional parameters: a query can't express null."""
    for methods in document["paths"].values():
        for route in methods.values():
            for parameter in route.get("parameters", ()):
                schema = parameter["schema"]
                kinds = [kind for kind in schema.pop("anyOf", ()) if kind != {"type": "null"}]
                if len(kinds) == 1:
                    schema.update(kinds[0])
                elif kinds:
                    schema["anyOf"] = kinds


def _say_security(document: dict[str, Any], rules: Rules, *, needs_token: bool, cookie: str) -> None:
    """Add the minimum role of each route (docs/people.md). A user's objects are for that user and admins."""
    document["components"]["securitySchemes"] = {**_SCHEMES, "session": {**_SCHEMES["session"], "name": cookie}}
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            need = rules.of(method.upper(), path).need
            if need is Access.JOB_TOKEN:
                route["security"] = [{"jobToken": []}]
            elif need.role is None:
                route["security"] = []
            else:
                ways = [{"token": [need.role.value]}, {"session": [need.role.value]}]
                route["security"] = ways if needs_token else [*ways, {}]
