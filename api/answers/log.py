"""Data of the events in the stream of a job's log."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel


class LogText(AnswerModel):
    text: str
    attempt: int
    rank: int = Field(description="which container of the attempt wrote it")
    times: Sequence[tuple[int, int]] = Field(
        description="[line, second]: from this line of the text on, counted from 0, lines began in this second since "
        "the epoch; 0: not known. A text may begin within a line."
    )


class LogEnd(AnswerModel):
    """There will be no more."""
