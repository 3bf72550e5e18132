"""Command line for laptops: the service offers its own wheel."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "laptop",
    routers=["routes:router"],
    commands={
        "client": CommandEntry(
            "commands:client", "Show how to install this command on a laptop.", CommandGroup.SERVICE
        ),
        "completion": CommandEntry(
            "completion:completion", "Complete commands and job IDs with the Tab key.", CommandGroup.SERVICE
        ),
    },
)
