"""A job as the API shows it: its JSON, with what is asked for most by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

from schedulearn.api.client.transport import Json
from schedulearn.scheduler.core.states import TERMINAL, JobStatus

MASK = "********"
"""What answers show in place of a value that may be secret."""


class Job(Json):
    """The API's JSON, a plain dict. `job["priority"]` and every other key are described by docs/jobs.md and by
    `GET /api/v1/openapi.json`."""

    @property
    def id(self) -> str:
        return str(self["id"])

    @property
    def name(self) -> str:
        return str(self["name"])

    @property
    def state(self) -> JobStatus:
        return JobStatus(self["state"])

    @property
    def message(self) -> str:
        """Why it is in this state, as a sentence."""
        return str(self["message"])

    @property
    def told(self) -> str:
        """Its message, with names in place of the ids of other jobs."""
        text = self.message
        for job_id, name in self.get("names", {}).items():
            text = text.replace(job_id, name)
        return text

    @property
    def why(self) -> str:
        """Its message with names; of a job that failed also the line of its log that says most about the fault."""
        line = str((self.get("failure") or {}).get("line") or "")
        if self.state is not JobStatus.FAILED or line.removeprefix("schedulearn: ") in self.message:
            return self.told
        return f"{self.told.removesuffix('.')}: {line}"

    @property
    def exit_code(self) -> int | None:
        """Of the command; None while it has not ended, or if it never ran."""
        code = self["exit_code"]
        return code if isinstance(code, int) else None

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def succeeded(self) -> bool:
        return self.state is JobStatus.SUCCEEDED

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        facts = {"id": self.id, "name": self.name, "state": self.state, "why": self.why}
        rows = "".join(f"<tr><th>{key}</th><td>{escape(str(value))}</td></tr>" for key, value in facts.items())
        return f"<table>{rows}</table>"


@dataclass(frozen=True)
class LogPiece:
    """`offset`: of the byte after `text` in the whole log; following resumes from there. `rank`: which container of the
    attempt wrote it. `times`: (line, second) from which line of the text on lines began in which second since the
    epoch, 0 where that is not known; a text may begin within a line."""

    offset: int
    text: str
    attempt: int = 0
    rank: int = 0
    times: Sequence[tuple[int, int]] = ()

    @classmethod
    def of(cls, offset: int | None, data: Mapping[str, Any]) -> LogPiece:
        """As an event of the stream has it; an older service tells less."""
        times = tuple((line, second) for line, second in data.get("times", ()))
        return cls(offset or 0, data["text"], data.get("attempt", 0), data.get("rank", 0), times)


def id_of(job: str | Job) -> str:
    return job if isinstance(job, str) else job.id


def resubmission(spec: Json, changes: Mapping[str, Any], now: datetime) -> tuple[Json, bool]:
    """What to submit for the `spec` of a stored job with `changes` (None takes a key away), and whether the service is
    to fill in hidden values from that job. A deadline that has passed was that of the earlier job, and is left out."""
    deadline = spec.get("deadline")
    late = isinstance(deadline, str) and datetime.fromisoformat(deadline) <= now
    kept = {key: value for key, value in spec.items() if key != "deadline" or not late}
    made = {key: value for key, value in {**kept, **changes}.items() if value is not None}
    env = made.get("env")
    return made, isinstance(env, dict) and MASK in env.values()
