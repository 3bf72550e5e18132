"""Ports of jobs, each at its own origin, with a login.

HTTP and WebSockets are passed on.
"""
