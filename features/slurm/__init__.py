"""Slurm: its scripts as job files, and its own commands."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "slurm",
    commands={
        "import": CommandEntry("commands:import_", "Convert jobs of other systems to job files.", CommandGroup.RUN),
        "slurm": CommandEntry("commands:slurm", "Slurm's own commands, such as squeue and sbatch.", CommandGroup.RUN),
    },
)
