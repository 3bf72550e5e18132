"""Operator tools beside a service: backup, restore, doctor, uninstall."""

from __future__ import annotations

from schedulearn.api.feature import Command, Feature

FEATURE = Feature(
    "admin",
    commands={
        "backup": Command("commands:backup", "Writes database, token, secrets, logs and code into FILE,..."),
        "restore": Command("commands:restore", "Makes a data folder of a backup in FILE, `-` for stdin."),
        "doctor": Command("commands:doctor", "Looks for what is wrong with the data folder, the database..."),
        "uninstall": Command("commands:uninstall", "Removes what the service has left on all of its hosts: job..."),
    },
)
