"""Usage: GPU-hours, energy, cost and capacity, by user, group, day and type of GPU."""

from __future__ import annotations

from schedulearn.api.feature import Command, Feature

FEATURE = Feature(
    "usage",
    routers=["routes:router"],
    commands={"usage": Command("commands:usage", "Shows GPU-hours, energy and cost.")},
)
