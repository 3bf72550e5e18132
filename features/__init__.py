"""Capabilities outside the core, one folder each."""

from __future__ import annotations

from schedulearn.features import accounts, admin, simulate, slurm, sweeps, usage, webhooks

FEATURES = (
    accounts.FEATURE,
    admin.FEATURE,
    simulate.FEATURE,
    slurm.FEATURE,
    sweeps.FEATURE,
    usage.FEATURE,
    webhooks.FEATURE,
)


def load_tables() -> None:
    """Make the tables of all features known, before a database is made."""
    for feature in FEATURES:
        feature.load_tables()
