"""Telemetry of GPUs, hosts and tasks: recent readings in memory, averages in the database."""
