"""Routes for accounts, quotas, groups, secrets and tokens."""
