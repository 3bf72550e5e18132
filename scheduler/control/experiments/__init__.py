"""Experiments: what their runs came to; advice from what jobs did before; the search for a configuration."""
