"""Simulations of a trace under several policies, with a report."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "simulate",
    commands={
        "simulate": CommandEntry(
            "commands:simulate", "Simulate a trace of jobs under several policies.", CommandGroup.STUDY
        ),
    },
)
