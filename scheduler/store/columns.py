"""Types of columns."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeVar

from pydantic_core import from_json
from sqlalchemy import JSON, Column, Float, String
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from schedulearn.scheduler.core.instants import bounded

E = TypeVar("E", bound=StrEnum)


class EnumColumn(TypeDecorator[E]):
    """A word of an enumeration: nothing else is written or read."""

    impl = String
    cache_ok = True

    def __init__(self, words: type[E]) -> None:
        super().__init__()
        self.words = words
        self._by_value = {word.value: word for word in words}  # a third of the time that `words(value)` takes

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else self.words(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> E | None:
        return None if value is None else self._by_value[value]


class InstantColumn(TypeDecorator[float]):
    """Seconds since the epoch, never out of the bounds that every answer can show."""

    impl = Float
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None else bounded(value)


def read_json(text: str) -> Any:
    """For the engine: most columns are empty objects or lists, and there are thousands of them in a list of jobs."""
    return {} if text == "{}" else [] if text == "[]" else from_json(text)


def json_column() -> Any:
    return Column(JSON, nullable=False)


def json_or_none_column() -> Any:
    return Column(JSON(none_as_null=True), nullable=True)
