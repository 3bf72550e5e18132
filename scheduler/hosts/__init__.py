"""Agents, one per host: they observe, start, stop, store and copy."""
