"""Requests that the service itself sends: allowed targets, POST, and events as receivers get them."""
