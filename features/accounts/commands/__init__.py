"""Commands for accounts, tokens and quotas."""
