"""Accounts: users, groups, quotas, tokens and secrets."""

from __future__ import annotations

from schedulearn.api.feature import Command, Feature

FEATURE = Feature(
    "accounts",
    routers=[f"routes.{name}:router" for name in ("quotas", "groups", "secrets", "tokens", "users")],
    commands={
        "whoami": Command("commands.users:whoami", "Says who the service takes you for, and what you may do."),
        "users": Command("commands.users:users", "People and programs with a role: admins do everything,..."),
        "tokens": Command("commands.tokens:tokens", "Named tokens, one for each person or program, beside the..."),
        "quota": Command("commands.quota:quota", "How much each user may have."),
        "groups": Command("commands.groups:groups", "Users who share a quota: it bounds them together, and each..."),
        "secrets": Command("commands.secrets:secrets", "Values that jobs get as variables, by name."),
    },
)
