"""Predictions of run times and metrics from finished jobs of a family."""
