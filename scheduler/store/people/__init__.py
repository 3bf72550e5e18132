"""Accounts, tokens, sessions and quotas in the database."""
