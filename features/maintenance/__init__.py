"""Maintenance windows of hosts: no job starts that would run into one, and hosts drain and return."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "maintenance",
    routers=["routes:router"],
    commands={
        "maintenance": CommandEntry(
            "commands:maintenance", "Manage maintenance windows of hosts.", CommandGroup.CLUSTER
        ),
    },
)
