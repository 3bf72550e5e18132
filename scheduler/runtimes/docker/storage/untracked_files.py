"""Untracked files of an ended container, from the engine's diff."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from schedulearn.scheduler.runtimes.contract import FileKind, UntrackedFile
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.storage.volume_view import VolumeView
from schedulearn.scheduler.runtimes.untracked import MAX_UNTRACKED_FILES, largest_first, may_matter

_MAX_S = 10.0
_REMOVED = 2


def untracked_files(engine: Engine, inspected: Any) -> list[UntrackedFile]:
    """Return the untracked files written since the container was created.

    The files of its code are older. The start time would be too late, because an engine records it when the command is
    already running."""
    if inspected["State"]["Status"] != "exited":
        return []
    with engine.errors("list the files that a container wrote"):
        changes = engine.api.diff(inspected["Id"]) or []
    paths = {change["Path"] for change in changes if change["Kind"] != _REMOVED}
    paths -= {str(parent) for path in paths for parent in PurePosixPath(path).parents}
    created_at = datetime.fromisoformat(inspected["Created"]).timestamp()
    view, deadline = VolumeView(engine, inspected["Id"], ""), time.monotonic() + _MAX_S
    found: list[UntrackedFile] = []
    for path in sorted(filter(may_matter, paths))[:MAX_UNTRACKED_FILES]:
        if time.monotonic() > deadline:
            break
        entry = view.stat(path.removeprefix("/"))
        written = entry is not None and entry.kind is FileKind.FILE and entry.modified_at >= created_at
        if written and entry is not None and entry.bytes:
            found.append(UntrackedFile(path, entry.bytes))
    return largest_first(found)
