"""Telemetry of GPUs, hosts and tasks."""
