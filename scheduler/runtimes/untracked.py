"""Filter and warning for files that a task leaves outside its folders. Pure.

The filter separates a task's results from files that any program leaves behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from schedulearn.scheduler.runtimes.contract import UntrackedFile

MAX_UNTRACKED_FILES = 300
"""Maximum number of files examined per task."""

_SYSTEM = {
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "schedulearn", "sys", "tmp",
    "usr", "var",
}  # fmt: skip
_PARTS = {"__pycache__", "site-packages", "dist-packages", "node_modules", "conda"}
_SHOWN = 3


def may_matter(path: str) -> bool:
    """Whether a file may be a result of the task.

    Temporary and hidden files, caches and installed packages are not. `path` is absolute, as the task saw it."""
    _, *parts = PurePosixPath(path).parts
    if not parts or parts[0] in _SYSTEM:
        return False
    return not any(part.startswith(".") or part in _PARTS for part in parts) and not path.endswith(".pyc")


def largest_first(files: Iterable[UntrackedFile]) -> list[UntrackedFile]:
    return sorted(files, key=lambda file: (-file.bytes, file.path))


def told(files: list[UntrackedFile], *, contained: bool) -> str:
    """Return a sentence that names the largest files and where they should have been written.

    `contained`: whether the task had its own disk (a container), not only a folder."""
    named = ", ".join(f"{file.path} ({_size(file.bytes)})" for file in files[:_SHOWN])
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    was = "was" if len(files) == 1 else "were"
    where = (
        "the container's own disk, which is deleted with the container"
        if contained
        else "the attempt's own folder, which is deleted with it"
    )
    outputs = "/outputs (SCHEDULEARN_OUTPUT_DIR)" if contained else "SCHEDULEARN_OUTPUT_DIR"
    return f"{named}{more} {was} written to {where}: write results to {outputs}."


def _size(size: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.{0 if size >= 10 * factor else 1}f} {unit}"
    return f"{size} byte{'s' * (size != 1)}"
