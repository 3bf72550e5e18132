"""What the service keeps is for its own user only: values of variables, secrets of webhooks and of reports, logs."""

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
    """From now on this process makes files that only its user may read. Once, before anything is made."""
    global _before
    if _before is None:
        _before = os.umask(_OTHERS)


def umask_of_user() -> int:
    """For programs of users and scripts that make images, as `Popen` takes it: what it was before."""
    return -1 if _before is None else _before


def close_to_others(folder: Path) -> None:
    """Makes the data folder, or takes others' rights to it away, also to what an older version made in it.

    A folder that serves for more than our data, such as somebody's home, keeps its rights: then only our own files
    and folders in it are closed. Containers have their checkpoints and the SDK in volumes, not from here.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    entries = list(folder.iterdir())
    ours = [entry for entry in entries if entry.name.startswith("schedulearn.db-") or entry.name in _OURS]
    if len(ours) == len(entries) or not _is_shared(folder):
        close_path(folder)
    for entry in ours:
        close_path(entry)


def _is_shared(folder: Path) -> bool:
    """Whether others may have business in it: /tmp, somebody's home, or where the service happened to be started."""
    return bool(folder.stat().st_mode & stat.S_ISVTX) or folder.resolve() in (Path.home().resolve(), Path.cwd())


def close_path(path: Path) -> None:
    """Only what belongs to us can be, and need be, closed; what is not there is fine."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return  # a journal that another service has just removed
    if found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and found.st_mode & _OTHERS:
        path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
