"""A disk of a few megabytes that can be filled, and a database that somebody else holds."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """To the last byte."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while file.write(b"\0" * size) == size:
                        pass
                except OSError:
                    continue

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def make_read_only(self) -> None:
        subprocess.run(["mount", "-o", "remount,ro", self.folder], check=True)

    def make_writable(self) -> None:
        subprocess.run(["mount", "-o", "remount,rw", self.folder], check=True)


def can_mount(folder: Path) -> bool:
    """Only root can."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return False
    subprocess.run(["umount", folder], check=True)
    return True


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=0700", "tmpfs", folder], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Somebody else has it open and writes."""
    with closing(sqlite3.connect(database, timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
