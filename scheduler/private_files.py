"""File permissions that restrict the service's data to its own user.

The data has values of variables, secrets of webhooks and of reports, and logs.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OURS = (
    "schedulearn.db", "schedulearn.lock", "reserve", "cluster-id", "token", "secrets.key", "logs", "tasks",
    "checkpoints", "checkpoint-copies", "sdk", "code", "layers", "data-sets", "shared-data", "tls",
)  # fmt: skip
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_before: int | None = None


def restrict_umask() -> None:
    """Set the umask so that only the service's user can read new files. Call it once, before creating any file."""
    global _before
    if _before is None:
        _before = os.umask(_OTHERS)


def umask_of_user() -> int:
    """Return the previous umask, as `Popen` takes it, for programs of users and scripts that build images."""
    return -1 if _before is None else _before


def close_to_others(folder: Path) -> None:
    """Create the data folder, or remove others' permissions from it and from files that an older version created.

    A folder with other data, such as a home folder, keeps its permissions. Then only the service's own files and
    folders in it are restricted. Containers have their checkpoints and the SDK in volumes, not in this folder.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    entries = list(folder.iterdir())
    ours = [entry for entry in entries if entry.name.startswith("schedulearn.db-") or entry.name in _OURS]
    if len(ours) == len(entries) or not _is_shared(folder):
        close_path(folder)
    for entry in ours:
        close_path(entry)


def _is_shared(folder: Path) -> bool:
    """Return whether others may use the folder: /tmp, a home folder, or the service's working directory."""
    return bool(folder.stat().st_mode & stat.S_ISVTX) or folder.resolve() in (Path.home().resolve(), Path.cwd())


def write_private(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file, whole or not at all: a full disk or a power failure leaves the old one, or none."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        if hasattr(os, "fchmod"):  # not on Windows, where a file of one's home is private
            os.fchmod(file.fileno(), mode)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def close_path(path: Path) -> None:
    """Remove others' permissions from a path. Missing paths, symbolic links and other users' paths are skipped."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return  # a journal that another service has just removed
    if found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and found.st_mode & _OTHERS:
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
