"""Simulations of a trace under several policies, with a report."""

from __future__ import annotations

from schedulearn.api.feature import Command, Feature

FEATURE = Feature(
    "simulate",
    commands={
        "simulate": Command("commands:simulate", "Simulate a trace of jobs under several policies."),
    },
)
