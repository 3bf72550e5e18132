"""Accounts: users, groups, quotas, tokens, secrets and registry logins."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "accounts",
    routers=[
        f"routes.{name}:router" for name in ("quotas", "groups", "secrets", "registries", "tokens", "logins", "users")
    ],
    commands={
        "login": CommandEntry(
            "commands.login:login", "Log in to a service and use it from now on.", CommandGroup.SERVICE
        ),
        "logout": CommandEntry(
            "commands.login:logout", "Log out: revoke this machine's token and forget it.", CommandGroup.SERVICE
        ),
        "contexts": CommandEntry(
            "commands.login:contexts", "Manage the services that you are logged in to.", CommandGroup.SERVICE
        ),
        "whoami": CommandEntry(
            "commands.users:whoami", "Show your user name and role at the service.", CommandGroup.CLUSTER
        ),
        "users": CommandEntry(
            "commands.users:users", "Manage users: people and programs with a role.", CommandGroup.CLUSTER
        ),
        "tokens": CommandEntry(
            "commands.tokens:tokens", "Manage named tokens for people and programs.", CommandGroup.CLUSTER
        ),
        "quota": CommandEntry("commands.quota:quota", "Manage the quotas of users.", CommandGroup.CLUSTER),
        "groups": CommandEntry(
            "commands.groups:groups", "Manage groups of users who share a quota.", CommandGroup.CLUSTER
        ),
        "secrets": CommandEntry(
            "commands.secrets:secrets", "Manage secrets, which jobs get as variables.", CommandGroup.CLUSTER
        ),
        "registry": CommandEntry(
            "commands.registry:registry",
            "Manage logins to registries of images, which hosts pull with.",
            CommandGroup.CLUSTER,
        ),
    },
)
