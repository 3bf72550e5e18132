"""Notices: messages about one's own jobs by e-mail, chats, push services and webhooks."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "notices",
    routers=["routes:router"],
    worker="worker:Notices.of",
    commands={
        "notify": CommandEntry(
            "commands:notify", "Manage the addresses that get notices about your jobs.", CommandGroup.CLUSTER
        )
    },
)
