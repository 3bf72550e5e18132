"""What all answers have in common, and how one is written.

A route that only reads returns its model: FastAPI finds that it is one of its class, which takes a microsecond for a
thousand jobs, and writes it. A route that changes something returns an `Answer`, which is written where it is made:
inside the transaction, before the commit (docs/adr/0023). Both check a value once, when its model is built.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict
from starlette.responses import Response

from schedulearn.scheduler.core.instants import shown

At = Annotated[str, BeforeValidator(shown)]
"""A time: given in seconds since the epoch, answered as ISO 8601 in UTC."""


class AnswerModel(BaseModel):
    """Built from keys, or from the attributes of a row; those that it does not have are left out."""

    model_config = ConfigDict(from_attributes=True, allow_inf_nan=True, ser_json_inf_nan="null")


class Answer(Response):
    """A model as JSON, written at once."""

    media_type = "application/json"

    def render(self, content: BaseModel) -> bytes:
        return json_bytes(content)


def json_bytes(model: BaseModel) -> bytes:
    """A number that JSON has no word for becomes null."""
    return model.__pydantic_serializer__.to_json(model)
