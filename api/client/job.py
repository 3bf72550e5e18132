"""Jobs as the API shows them: JSON, with common keys as attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

from schedulearn.api.client.transport import Json, part
from schedulearn.scheduler.core.states import TERMINAL, JobState

MASK = "********"
"""Placeholder in responses for a value that may be secret."""


class Job(Json):
    """The API's JSON, a plain dict.

    docs/jobs.md and `GET /api/v1/openapi.json` describe `job["priority"]` and every other key."""

    @property
    def id(self) -> str:
        return str(self["id"])

    @property
    def name(self) -> str:
        return str(self["name"])

    @property
    def state(self) -> JobState:
        return JobState(self["state"])

    @property
    def message(self) -> str:
        """Reason for its state, as a sentence."""
        return str(self["message"])

    @property
    def told(self) -> str:
        """The message, with names in place of the ids of other jobs."""
        text = self.message
        for job_id, name in self.get("names", {}).items():
            text = text.replace(job_id, name)
        return text

    @property
    def why(self) -> str:
        """The message with names; for a failed job also the log line that says most about the fault."""
        line = str((self.get("failure") or {}).get("line") or "")
        if self.state is not JobState.FAILED or line.removeprefix("schedulearn: ") in self.message:
            return self.told
        return f"{self.told.removesuffix('.')}: {line}"

    @property
    def exit_code(self) -> int | None:
        """Exit code of the command; None while it has not ended, or if it never ran."""
        code = self["exit_code"]
        return code if isinstance(code, int) else None

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def succeeded(self) -> bool:
        return self.state is JobState.SUCCEEDED

    def _repr_html_(self) -> str:
        """Return the job as HTML for a notebook."""
        facts = {"id": self.id, "name": self.name, "state": self.state, "why": self.why}
        rows = "".join(f"<tr><th>{key}</th><td>{escape(str(value))}</td></tr>" for key, value in facts.items())
        return f"<table>{rows}</table>"


@dataclass(frozen=True)
class LogPiece:
    """Piece of a job's log.

    `offset`: position of the byte after `text` in the whole log; following resumes from there. `rank`: rank of the
    container in the attempt that wrote it. `times`: pairs (line, second). From that line of the text on, lines began in
    that second since the epoch, 0 if unknown. A text may begin within a line."""

    offset: int
    text: str
    attempt: int = 0
    rank: int = 0
    times: Sequence[tuple[int, int]] = ()

    @classmethod
    def of(cls, offset: int | None, data: Mapping[str, Any]) -> LogPiece:
        """Return the piece of an event of the stream; events of an older service have fewer keys."""
        times = tuple((line, second) for line, second in data.get("times", ()))
        return cls(offset or 0, data["text"], data.get("attempt", 0), data.get("rank", 0), times)


def id_of(job: str | Job) -> str:
    return job if isinstance(job, str) else job.id


def path_of(job: str | Job) -> str:
    """Return the path of a job below /api/v1."""
    return f"jobs/{part(id_of(job))}"


def resubmission(spec: Json, changes: Mapping[str, Any], now: datetime) -> tuple[Json, bool]:
    """Return what to submit for a stored job with `changes`, and whether hidden values are needed.

    `spec` is that of the stored job; None in `changes` removes a key. The service fills in hidden values from that job.
    A deadline that has passed was that of the earlier job, and is left out."""
    deadline = spec.get("deadline")
    late = isinstance(deadline, str) and datetime.fromisoformat(deadline) <= now
    kept = {key: value for key, value in spec.items() if key != "deadline" or not late}
    made = {key: value for key, value in {**kept, **changes}.items() if value is not None}
    env = made.get("env")
    return made, isinstance(env, dict) and MASK in env.values()
