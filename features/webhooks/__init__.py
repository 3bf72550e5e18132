"""Webhooks: URLs that get events by POST."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "webhooks",
    tables="table",
    routers=["routes:router"],
    worker="worker:Webhooks.of",
    commands={
        "webhooks": CommandEntry(
            "commands:webhooks", "Manage webhooks: URLs that receive events.", CommandGroup.CLUSTER
        )
    },
)
