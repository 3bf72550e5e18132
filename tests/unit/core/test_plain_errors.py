"""No text of the validator reaches a person as it is: each model that reads what people write, given much that is
wrong, is asked what it says of it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from sqlmodel import SQLModel

import schedulearn.api
import schedulearn.scheduler
from schedulearn.api.answers.model import AnswerModel
from schedulearn.api.app import create_app
from schedulearn.api.settings import load_settings
from schedulearn.features import FEATURES
from schedulearn.scheduler.core.plain_errors import faults_of, plain_message

ROOT = Path(__file__).parents[3]
ONE_PLACE = "scheduler/core/plain_errors.py"
RAW = re.compile(
    r"\bshould\b|\bInput\b|\bString\b|pattern|not permitted|required|\[[^]]*-[^]]*\]|[\^$]|\binstance\b|<class|{"
)
WRONG: list[Any] = [
    None, True, -7, 1.5, 1 << 70, float("inf"), "", "ä b", "\0", "\ud800", "x" * 200_000, "http:/x",
    [], [None], ["ä b"],
    [[]], ["x"] * 20_000, {}, {"ä b": None}, {"nobody knows this": 1}, {"x": {}}, b"\xff",
]  # fmt: skip


def models() -> list[type[BaseModel]]:
    """Those that read, not those of answers and tables."""
    for package in (schedulearn.api, schedulearn.scheduler):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if ".migrations." not in module.name and not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found, left = set(), [BaseModel]
    while left:
        for each in left.pop().__subclasses__():
            left.append(each)
            ours = each.__module__.startswith("schedulearn.") and ".answers." not in each.__module__
            if ours and not issubclass(each, (AnswerModel, SQLModel)):
                found.add(each)
    return sorted(found, key=lambda each: (each.__module__, each.__qualname__))


def said_by(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    for name in [*model.model_fields, "nobody_knows_this"]:
        for value in WRONG:
            try:
                model.model_validate({name: value})
            except ValidationError as error:
                yield from ((f"{model.__name__}.{name}", plain_message(each)) for each in faults_of(error))


def test_each_model_says_in_words_what_is_wrong() -> None:
    known = models()
    assert {"JobSpec", "Settings", "SweepSpec", "ReportIn", "HostSpec", "OpenIn"} <= {each.__name__ for each in known}
    said = {each for model in known for each in said_by(model)}
    assert sorted(each for each in said if RAW.search(each[1])) == []


def test_each_parameter_of_a_route_says_in_words_what_is_wrong() -> None:
    app: Any = create_app(load_settings(), features=FEATURES)
    while not isinstance(app, FastAPI):
        app = app.app
    said = set()
    for route in routes_of(app):
        for field in (*route.dependant.query_params, *route.dependant.path_params):
            for value in WRONG:
                _, errors = field.validate(value, {}, loc=("query", field.alias))
                said |= {(route.path, field.alias, plain_message(each)) for each in errors or ()}
    assert {"/api/v1/jobs", "/api/v1/groups/{name}", "/api/v1/predictions"} <= {path for path, _, _ in said}
    assert sorted(each for each in said if RAW.search(each[2])) == []


def routes_of(router: Any) -> Iterator[APIRoute]:
    """Also those of routers that it includes."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield route
        elif (inner := getattr(route, "original_router", None)) is not None:
            yield from routes_of(inner)


def test_no_other_module_makes_a_text_of_what_the_validator_says() -> None:
    """They ask `plain_errors`: neither a validator's `msg` nor the error itself stands in a text of theirs."""
    wrong = []
    for file in [*ROOT.glob("api/**/*.py"), *ROOT.glob("scheduler/**/*.py")]:
        name = str(file.relative_to(ROOT))
        tree = ast.parse(file.read_text())
        wrong += [(name, line) for line in raw_texts(tree) if name != ONE_PLACE]
    assert wrong == []


def raw_texts(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value == "msg":
            yield node.lineno
        if isinstance(node, ast.ExceptHandler) and node.name and "ValidationError" in ast.unparse(node.type or node):
            told = (each for each in ast.walk(node) if isinstance(each, ast.FormattedValue | ast.Call))
            for each in told:
                values = [each.value] if isinstance(each, ast.FormattedValue) else each.args
                is_text = isinstance(each, ast.FormattedValue) or ast.unparse(each.func) in ("str", "repr")
                if is_text and any(isinstance(value, ast.Name) and value.id == node.name for value in values):
                    yield each.lineno


@pytest.mark.parametrize("text", ["x['msg']", "try: ...\nexcept ValidationError as e: raise E(f'{e}')"])
def test_such_a_text_is_found(text: str) -> None:
    assert list(raw_texts(ast.parse(text)))
