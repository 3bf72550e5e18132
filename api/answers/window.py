"""Response about a maintenance window."""

from __future__ import annotations

from typing import Self

from pydantic import Field

from schedulearn.api.answers.model import AnswerModel, At
from schedulearn.scheduler.core.cluster_state import MaintenanceWindow


class WindowOut(AnswerModel):
    """Maintenance window: its present or next occurrence."""

    id: int
    hosts: list[str] = Field(description="names of hosts; empty: all")
    start: At
    end: At
    every: str | None = Field(description="cron expression of its begins; null: it takes place once")
    time_zone: str
    reason: str
    deadline: float = Field(description="seconds after the begin at which rigid jobs are stopped too")

    @classmethod
    def of(cls, window: MaintenanceWindow) -> Self:
        return cls.model_validate(
            {
                **window._asdict(),
                "hosts": list(window.hosts),
                "start": window.starts_at,
                "end": window.ends_at,
                "every": window.cron or None,
                "deadline": window.stops_rigid_s,
            }
        )
