"""Base of all response models, and their serialization.

A route that only reads returns its model. FastAPI checks the model's class, which takes 1 µs for 1,000 jobs, and writes
it. A route that changes something returns an `Answer`. It is written where it is made: inside the transaction, before
the commit (docs/adr/0023). Both validate a value once, when its model is built.

A response may have thousands of jobs, GPUs and events: `unchecked` builds them. Validating the 60 keys of a job takes
longer than reading, building and writing it (1,000 jobs: 28 of 57 ms). Their values come from typed columns, pydantic's
serializer warns of a value of another type, and tests/api/test_answers.py checks the responses of every route.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict
from sqlalchemy import Row
from starlette.responses import Response

from schedulearn.scheduler.core.instants import shown

At = Annotated[str, BeforeValidator(shown)]
"""Instant, given in seconds since the epoch and serialized as ISO 8601 in UTC."""


def values_of(rows: Sequence[Row[Any]]) -> Iterator[dict[str, Any]]:
    """Yield each row as column -> value, in half the time of its `_asdict`.

    They come one at a time, so that few exist at once."""
    keys = rows[0]._fields if rows else ()
    return (dict(zip(keys, row, strict=True)) for row in rows)


class AnswerModel(BaseModel):
    """Built from keys, or from the attributes of a row; those that it does not have are left out."""

    model_config = ConfigDict(from_attributes=True, ser_json_inf_nan="null")


M = TypeVar("M", bound=BaseModel)


def unchecked(model: type[M], values: dict[str, object]) -> M:
    """Return a model without validation; `model_construct` takes 50 times as long.

    The values must be valid as they are: instants are ISO 8601 already."""
    made = model.__new__(model)
    object.__setattr__(made, "__dict__", values)
    object.__setattr__(made, "__pydantic_fields_set__", values.keys())
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


class Answer(Response):
    """Response with a model as JSON, written when it is made."""

    media_type = "application/json"

    def render(self, content: BaseModel) -> bytes:
        return json_bytes(content)


def json_bytes(model: BaseModel) -> bytes:
    """Return a model as JSON. A number that JSON can't express becomes null."""
    return model.__pydantic_serializer__.to_json(model)
