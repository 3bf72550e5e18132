"""Responses about sweeps, experiments and advice."""
