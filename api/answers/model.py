"""What all answers have in common, and how one is written.

A route that only reads returns its model: FastAPI finds that it is one of its class, which takes a microsecond for a
thousand jobs, and writes it. A route that changes something returns an `Answer`, which is written where it is made:
inside the transaction, before the commit (docs/adr/0023). Both check a value once, when its model is built.

Jobs, GPUs and events come by the thousand: they are built by `unchecked`. To check a job's sixty keys takes longer than
to read, build and write it (1,000 jobs: 28 of 57 ms). What they show comes from typed columns, pydantic's serializer
warns of a value of another type, and tests/api/test_answers.py checks the answers of every route.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict
from sqlalchemy import Row
from starlette.responses import Response

from schedulearn.scheduler.core.instants import shown

At = Annotated[str, BeforeValidator(shown)]
"""A time: given in seconds since the epoch, answered as ISO 8601 in UTC."""


def values_of(rows: Sequence[Row[Any]]) -> Iterator[dict[str, Any]]:
    """Column -> value of each row, in half the time of its `_asdict`; one at a time, so that few are alive at once."""
    keys = rows[0]._fields if rows else ()
    return (dict(zip(keys, row, strict=True)) for row in rows)


class AnswerModel(BaseModel):
    """Built from keys, or from the attributes of a row; those that it does not have are left out."""

    model_config = ConfigDict(from_attributes=True, ser_json_inf_nan="null")


M = TypeVar("M", bound=BaseModel)


def unchecked(model: type[M], values: dict[str, object]) -> M:
    """A model of values that are as it says, times included; `model_construct` takes fifty times as long."""
    made = model.__new__(model)
    object.__setattr__(made, "__dict__", values)
    object.__setattr__(made, "__pydantic_fields_set__", values.keys())
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


class Answer(Response):
    """A model as JSON, written at once."""

    media_type = "application/json"

    def render(self, content: BaseModel) -> bytes:
        return json_bytes(content)


def json_bytes(model: BaseModel) -> bytes:
    """A number that JSON has no word for becomes null."""
    return model.__pydantic_serializer__.to_json(model)
