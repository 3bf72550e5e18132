"""Command that runs the service."""
