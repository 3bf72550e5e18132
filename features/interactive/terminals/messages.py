"""JSON messages on the socket of a terminal.

They are short texts, beside the bytes of input and output.
"""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schedulearn.scheduler.core.plain_errors import first_fault
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.runtimes.terminals.contract import Size

LONGEST = 64 << 10
"""Maximum bytes of one message to the service."""
_COMMAND = 32 << 10

Characters = Annotated[int, Field(ge=1, le=1000)]


class SizeIn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    columns: Characters
    rows: Characters

    @property
    def size(self) -> Size:
        return Size(self.columns, self.rows)


class OpenIn(BaseModel):
    """The first message."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    command: list[Annotated[str, Field(pattern=r"^[^\x00]*$")]] = Field(default_factory=list, max_length=1000)
    """Empty: a shell."""
    port: int | None = Field(default=None, ge=1, le=65_535)
    """Instead of a command: input and output are a connection to this port of the container."""
    rank: int | None = Field(default=None, ge=0, le=1_000_000)
    terminal: SizeIn | None = None
    """None: pipes."""
    keep: bool = False
    """Whether it goes on for a while when the socket breaks.

    The response has the id by which it is found again."""
    resume: str | None = Field(default=None, max_length=100)
    """Id of a kept terminal, in place of all other fields."""


class ControlIn(BaseModel):
    """Any later text."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    resize: SizeIn | None = None
    end_input: bool = False
    end: bool = False
    """End what runs here now, even if it was to be kept."""


def open_in(text: str) -> OpenIn:
    """Parse the first message. Raises InvalidError."""
    try:
        wish = OpenIn.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(error) from error
    if sum(len(word.encode("utf-8", "replace")) for word in wish.command) > _COMMAND:
        raise InvalidError(f"a command has at most {_COMMAND} bytes", field="command")
    if wish.port is not None and (wish.command or wish.terminal):
        raise InvalidError("a port can't be combined with a command or a terminal", field="port")
    if wish.command and not wish.command[0]:
        raise InvalidError("the command is empty", field="command")
    return wish


def control_in(text: str) -> ControlIn:
    """Parse a later message. Raises InvalidError."""
    try:
        return ControlIn.model_validate_json(text)
    except ValidationError as error:
        raise _invalid(error) from error


def opened_out(rank: int, idle_s: float, kept_as: str | None = None) -> str:
    return json.dumps({"opened": {"rank": rank, "idle_after": idle_s, **({"id": kept_as} if kept_as else {})}})


def exit_out(code: int) -> str:
    return json.dumps({"exit_code": code})


def problem_out(code: str, detail: str) -> str:
    return json.dumps({"problem": {"code": code, "detail": detail}})


def _invalid(error: ValidationError) -> InvalidError:
    fault = first_fault(error)
    return InvalidError(f"{fault.field or 'the message'}: {fault.message}"[:300], field=fault.field)
