"""Overview of failed jobs, by cause."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "failures",
    routers=["routes:router"],
    commands={"failures": CommandEntry("commands:failures", "Show why jobs failed, by cause.", CommandGroup.LOOK)},
)
