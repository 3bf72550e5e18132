"""Accounting of GPU usage by user, and of GPU capacity."""
