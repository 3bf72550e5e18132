"""Derivation of state changes of tasks, jobs, hosts and GPUs from observations. Pure."""
