"""Operator tools beside a service: backup, restore, doctor, uninstall."""

from __future__ import annotations

from schedulearn.api.feature import Command, Feature

FEATURE = Feature(
    "admin",
    commands={
        "backup": Command("commands:backup", "Back up database, token, secrets, logs and code to FILE."),
        "restore": Command("commands:restore", "Restore a data folder from a backup in FILE."),
        "doctor": Command("commands:doctor", "Check the data folder, the database and the hosts."),
        "uninstall": Command("commands:uninstall", "Remove everything that the service created on its hosts."),
    },
)
