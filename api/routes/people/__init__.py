"""Accounts, tokens, sessions, quotas."""
