"""Operator tools beside a service: backup, restore, doctor, uninstall, and the service under systemd."""

from __future__ import annotations

from schedulearn.api.feature import CommandEntry, CommandGroup, Feature

FEATURE = Feature(
    "admin",
    commands={
        "backup": CommandEntry(
            "commands:backup", "Back up database, token, secrets, logs and code to FILE.", CommandGroup.SERVICE
        ),
        "restore": CommandEntry(
            "commands:restore", "Restore a data folder from a backup in FILE.", CommandGroup.SERVICE
        ),
        "doctor": CommandEntry(
            "commands:doctor", "Check the data folder, the database and the hosts.", CommandGroup.SERVICE
        ),
        "install-service": CommandEntry(
            "install_command:install_service", "Install the service under systemd, or upgrade it.", CommandGroup.SERVICE
        ),
        "uninstall": CommandEntry(
            "commands:uninstall", "Remove everything that the service created on its hosts.", CommandGroup.SERVICE
        ),
    },
)
