"""Usage reports: GPU-hours, energy and cost by day, user or label; capacity by day."""

from __future__ import annotations

from schedulearn.api.feature import Command, Feature

FEATURE = Feature(
    "usage",
    routers=["routes:router"],
    commands={"usage": Command("commands:usage", "Shows GPU-hours, energy and cost.")},
)
