"""Sweeps, designed experiments, searches, and advice from finished jobs."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "sweeps",
    tables="owned",
    routers=[f"routes.{name}:router" for name in ("sweeps", "experiments", "searches", "advice", "predictions")],
    worker="worker:SweepWorker",
    commands={
        "sweep": CommandEntry("commands.sweep:sweep", "Run one job with many parameters.", CommandGroup.STUDY),
        "experiment": CommandEntry(
            "commands.experiment:experiment",
            "Measure how factors of a job affect its time and metrics.",
            CommandGroup.STUDY,
        ),
        "search": CommandEntry(
            "commands.search:search", "Search for the best configuration of a job by short trials.", CommandGroup.STUDY
        ),
        "advise": CommandEntry(
            "commands.advise:advise", "Choose batch size and number of GPUs for the job in FILE.", CommandGroup.STUDY
        ),
        "predictions": CommandEntry(
            "commands.predictions:predictions",
            "Compare predicted with actual run times and metrics.",
            CommandGroup.STUDY,
        ),
    },
)
