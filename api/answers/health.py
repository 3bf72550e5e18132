"""Response of the health check."""

from __future__ import annotations

from typing import Literal

from schedulearn.api.answers.model import AnswerModel


class Health(AnswerModel):
    status: Literal["ok"]
    version: str
