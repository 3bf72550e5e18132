"""Specification of a webhook, and the events that it may select."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, field_validator

from schedulearn.api.outgoing.urls import checked_url

EVENTS: dict[str, tuple[str, ...]] = {
    "job.running": ("job.running",),
    "job.ended": ("job.succeeded", "job.failed", "job.timeout", "job.cancelled"),
    "job.failed": ("job.failed", "job.timeout"),
    "job.hung": ("job.hung",),
    "sweep.ended": ("sweep.completed", "sweep.failed", "sweep.cancelled"),
    "host.lost": ("host.lost",),
    "host.back": ("host.back",),
    "gpu.unhealthy": ("gpu.unhealthy", "host.gpus_closed"),
    "policy.changed": ("policy.changed",),
}
"""Selectable event -> the kinds of events that it stands for."""

MEANINGS = {
    "job.running": "a job has begun to run, also after a resize or a restart",
    "job.ended": "a job has succeeded, failed, run into its time limit or been cancelled",
    "job.failed": "a job has failed for good, or run into its time limit",
    "job.hung": "a job seems to hang, or does not use its GPUs",
    "sweep.ended": "every run of a sweep has ended, or it failed or was cancelled",
    "host.lost": "a host has not answered for `host_grace`",
    "host.back": "a host that was lost answers again",
    "gpu.unhealthy": "a GPU, or all of a host, were taken out of service: Xid, ECC, gone, or jobs can't start",
    "policy.changed": "the policy was changed",
}


class WebhookSpec(BaseModel):
    """URL that receives events as JSON by POST."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, strict=True)

    url: str = Field(max_length=2000, description="http:// or https://, without a user name or password")
    events: list[str] = Field(
        default=["job.ended", "host.lost", "gpu.unhealthy"],
        min_length=1,
        max_length=100,
        description=f"any of {', '.join(EVENTS)}",
    )
    secret: str = Field(
        default="",
        max_length=200,
        description="secret to sign deliveries with (HMAC-SHA256), which is never shown again; empty: not signed",
    )

    @field_validator("url")
    @classmethod
    def _can_be_called(cls, url: str) -> str:
        return checked_url(url)

    @field_validator("events")
    @classmethod
    def _known(cls, events: list[str]) -> list[str]:
        if unknown := [name for name in events if name not in EVENTS]:
            raise ValueError(f"there is no event {unknown[0]!r}: choose from {', '.join(EVENTS)}")
        return list(dict.fromkeys(events))


def kinds_of(events: Sequence[str]) -> tuple[str, ...]:
    """The kinds of events that these names stand for."""
    return tuple(dict.fromkeys(kind for name in events for kind in EVENTS.get(name, ())))
