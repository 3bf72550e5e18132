"""A job's code in its container: put there before the container starts, whole or it does not start."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from schedulearn.scheduler.runtimes.docker.container import WORKSPACE

_PIECE = 1 << 20


def put_code(api: Any, container: str, archive: Path) -> None:
    """Also into one that has a part of it already: a service may have died meanwhile. Raises docker's APIError."""
    api.put_archive(container, WORKSPACE, _content(archive))


def _content(archive: Path) -> Iterator[bytes]:
    folder = tarfile.TarInfo(".")
    folder.type, folder.mode = tarfile.DIRTYPE, 0o777  # the image's user may be anyone
    yield folder.tobuf(tarfile.GNU_FORMAT)
    with archive.open("rb") as source:
        while piece := source.read(_PIECE):
            yield piece
