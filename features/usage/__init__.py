"""Reports of usage and capacity.

Usage is GPU-hours, energy and cost by day, user or label. Capacity is GPU-hours by day.
"""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "usage",
    routers=["routes:router"],
    commands={"usage": CommandEntry("commands:usage", "Show GPU-hours, energy and cost.", CommandGroup.CLUSTER)},
)
