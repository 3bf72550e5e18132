"""Disk space of the data folder: low-water mark and reserve.

The reserve lets the service act when the disk is full. The module uses only the standard library, since the supervisors
of local tasks import it too.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

LOW = 256 << 20
"""Bytes that must be free before more data is accepted; on a small disk, a twentieth of its size."""
RESERVE = 32 << 20
_NAME = "reserve"


def is_low(folder: str | os.PathLike[str]) -> bool:
    """Return whether the disk is too full to accept more logs, code, data and jobs."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False  # the code that uses the folder reports the error
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    return free < min(LOW, total // 20)


def take_reserve(folder: Path) -> None:
    """Allocate the reserve if it does not exist and the disk has space for it."""
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
    """Delete the reserve. Return True if there was one."""
    try:
        (folder / _NAME).unlink()
    except OSError:
        return False
    return True
