"""Room on the disk of the data folder: a low-water mark, and a reserve to act with when the disk is full.

Standard library only: the keepers of local tasks import it, too.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

LOW = 256 << 20
"""Bytes that must be free before more is taken; of a small disk a twentieth."""
RESERVE = 32 << 20
_NAME = "reserve"


def is_low(folder: str | os.PathLike[str]) -> bool:
    """Whether no more logs, code, data and jobs may be taken there."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False  # what is wrong is told by whoever uses it
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    return free < min(LOW, total // 20)


def take_reserve(folder: Path) -> None:
    """Take the reserve again where the disk has room for it."""
    path = folder / _NAME
    if path.exists() or is_low(folder):
        return
    total = os.statvfs(folder)
    size = min(RESERVE, total.f_blocks * total.f_frsize // 20)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EEXIST, errno.EROFS):
            raise


def give_reserve(folder: Path) -> bool:
    """Give the reserve up: True if there was one."""
    try:
        (folder / _NAME).unlink()
    except OSError:
        return False
    return True
