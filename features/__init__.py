"""Capabilities outside the core, one folder each."""

from __future__ import annotations

from schedulearn.features import admin, simulate, slurm, webhooks

FEATURES = (admin.FEATURE, simulate.FEATURE, slurm.FEATURE, webhooks.FEATURE)
