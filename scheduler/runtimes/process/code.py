"""Unpacking of a job's code as the directory of a local process."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from schedulearn.scheduler.code.archive import unpack


def unpack_code(archive: Path, work: Path) -> None:
    """Unpack the code into the folder `work`, atomically.

    An existing folder is complete. Another thread or service may do the same at the same time."""
    if work.is_dir():
        return
    partial = Path(tempfile.mkdtemp(prefix=".code-", dir=work.parent))
    try:
        unpack(archive, partial)
        os.rename(partial, work)
    except OSError:
        if not work.is_dir():  # otherwise another thread or service was faster
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
