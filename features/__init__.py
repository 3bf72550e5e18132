"""Capabilities outside the core, one folder each."""

from __future__ import annotations

from schedulearn.features import (
    accounts,
    admin,
    failures,
    interactive,
    laptop,
    maintenance,
    notices,
    recurring,
    sign_in,
    simulate,
    slurm,
    sweeps,
    usage,
    webhooks,
)

FEATURES = (
    accounts.FEATURE,
    admin.FEATURE,
    failures.FEATURE,
    interactive.FEATURE,
    laptop.FEATURE,
    maintenance.FEATURE,
    notices.FEATURE,
    recurring.FEATURE,
    sign_in.FEATURE,
    simulate.FEATURE,
    slurm.FEATURE,
    sweeps.FEATURE,
    usage.FEATURE,
    webhooks.FEATURE,
)


def load_tables() -> None:
    """Register the tables of all features. Call it before a database is created."""
    for feature in FEATURES:
        feature.load_tables()
