"""What happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from schedulearn.api.answers.model import AnswerModel, At


class EventOut(AnswerModel):
    id: int
    at: At
    kind: str
    job_id: str | None
    host_id: str | None
    code: str
    message: str
    data: dict[str, object]


class EventPage(AnswerModel):
    items: list[EventOut]

    @classmethod
    def of(cls, rows: Iterable[object]) -> Self:
        return cls(items=[EventOut.model_validate(row) for row in rows])
