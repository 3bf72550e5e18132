"""Real training with the worker SDK."""
