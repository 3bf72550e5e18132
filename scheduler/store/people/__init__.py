"""Accounts, tokens, sessions, quotas: who may use the service, and how much."""
