"""Accounts: users, groups, quotas, tokens and secrets."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, Feature

FEATURE = Feature(
    "accounts",
    routers=[f"routes.{name}:router" for name in ("quotas", "groups", "secrets", "tokens", "logins", "users")],
    commands={
        "login": CommandEntry("commands.login:login", "Log in to a service and use it from now on."),
        "logout": CommandEntry("commands.login:logout", "Log out: revoke this machine's token and forget it."),
        "contexts": CommandEntry("commands.login:contexts", "Manage the services that you are logged in to."),
        "whoami": CommandEntry("commands.users:whoami", "Show your user name and role at the service."),
        "users": CommandEntry("commands.users:users", "Manage users: people and programs with a role."),
        "tokens": CommandEntry("commands.tokens:tokens", "Manage named tokens for people and programs."),
        "quota": CommandEntry("commands.quota:quota", "Manage the quotas of users."),
        "groups": CommandEntry("commands.groups:groups", "Manage groups of users who share a quota."),
        "secrets": CommandEntry("commands.secrets:secrets", "Manage secrets, which jobs get as variables."),
    },
)
