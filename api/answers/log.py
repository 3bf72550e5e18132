"""Data of the events in the stream of a job's log."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel


class LogText(AnswerModel):
    text: str
    attempt: int
    rank: int = Field(description="rank of the container that wrote it")
    times: Sequence[tuple[int, int]] = Field(
        description="[line, second]: lines from this one on began in this second since the epoch. Lines are counted "
        "from 0; 0 seconds: unknown. A text may begin within a line."
    )


class LogEnd(AnswerModel):
    """There will be no more."""
