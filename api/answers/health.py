"""Whether the service lives, and whether a token is one of its own."""

from __future__ import annotations

from typing import Literal

from schedulearn.api.answers.model import AnswerModel


class Health(AnswerModel):
    status: Literal["ok"]
    version: str


class SessionOut(AnswerModel):
    status: Literal["ok"]
