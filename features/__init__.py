"""Capabilities outside the core, one folder each."""

from __future__ import annotations

from schedulearn.features import accounts, admin, simulate, slurm, usage, webhooks

FEATURES = (accounts.FEATURE, admin.FEATURE, simulate.FEATURE, slurm.FEATURE, usage.FEATURE, webhooks.FEATURE)
