"""What the stream of a job's log carries, as the data of its events."""

from __future__ import annotations

from schedulearn.api.answers.model import AnswerModel


class LogText(AnswerModel):
    text: str


class LogEnd(AnswerModel):
    """There will be no more."""
