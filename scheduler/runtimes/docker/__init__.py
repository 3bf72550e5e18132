"""Containers of one Docker Engine as tasks."""
