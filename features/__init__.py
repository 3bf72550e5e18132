"""Capabilities outside the core, one folder each."""

from __future__ import annotations

from schedulearn.features import admin, webhooks

FEATURES = (admin.FEATURE, webhooks.FEATURE)
