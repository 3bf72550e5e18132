"""Courier's experiments: a full factorial of real training, and jobs with objectives."""
