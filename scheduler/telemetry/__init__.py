"""Readings of GPUs: from probes into memory, averages and verdicts into the database."""
