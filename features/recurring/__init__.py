"""Recurring jobs: schedules that submit a job at the times of a cron expression."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "recurring",
    tables="table",
    routers=["routes:router"],
    worker="worker:Recurring",
    commands={
        "schedule": CommandEntry("commands:schedule", "Manage recurring jobs.", CommandGroup.RUN),
    },
)
