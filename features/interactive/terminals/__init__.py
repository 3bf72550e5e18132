"""Terminals in running jobs, over WebSockets."""
