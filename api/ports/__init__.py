"""Ports of jobs, each at an origin of its own, with a login.

HTTP and WebSockets are passed on.
"""
