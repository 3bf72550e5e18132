"""Ports of jobs at addresses of the service: an origin for each, a login of its own, HTTP and WebSockets passed on."""
