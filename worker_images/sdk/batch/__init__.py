"""Adaptive batch: measurement, choice, changes, and a guard against harm."""
