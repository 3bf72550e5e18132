"""Importers: batch scripts of Slurm as job files."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "slurm",
    commands={
        "import": CommandEntry("commands:import_", "Convert jobs of other systems to job files.", CommandGroup.RUN)
    },
)
