"""Endpoints that both clients share.

`Client` returns responses, `AsyncClient` awaitables.
"""
