"""Predictions of a job's run time and metrics from finished jobs of its family."""
