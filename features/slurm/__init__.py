"""Importers: batch scripts of Slurm as job files."""

from __future__ import annotations

from schedulearn.api.feature import Command, Feature

FEATURE = Feature(
    "slurm", commands={"import": Command("commands:import_", "Convert jobs of other systems to job files.")}
)
