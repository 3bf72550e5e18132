"""Middleware and protocols between the network and the application."""
