"""Decisions, the simulator, and the goodput policy beside others."""
