"""Sweeps, designed experiments, searches, and advice from finished jobs."""

from __future__ import annotations

from schedulearn.api.feature import Command, Feature

FEATURE = Feature(
    "sweeps",
    tables="owned",
    routers=[f"routes.{name}:router" for name in ("sweeps", "experiments", "searches", "advice", "predictions")],
    worker="worker:SweepWorker",
    commands={
        "sweep": Command("commands.sweep:sweep", "Tries one job with many parameters: `sweep FILE` starts..."),
        "experiment": Command(
            "commands.experiment:experiment", "Measures what the factors of a job do to its time and its..."
        ),
        "search": Command("commands.search:search", "Searches for the best configuration of a job by short..."),
        "advise": Command("commands.advise:advise", "Tells with which batch size and how many GPUs the job in..."),
        "predictions": Command(
            "commands.predictions:predictions", "Shows how long jobs were predicted to take by their..."
        ),
    },
)
