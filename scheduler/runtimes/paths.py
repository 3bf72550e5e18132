"""Parsing and link resolution of paths in a job's folder.

No path and no link leads out of the folder.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath

from schedulearn.scheduler.errors import InvalidError, NotFoundError
from schedulearn.scheduler.runtimes.contract import FileEntry, FileKind

_LONGEST = 4096  # maximum number of characters in a path, as in Linux
_MAX_LINKS = 40  # maximum number of links followed for one path, as in Linux

Stat = Callable[[str], FileEntry | None]


def parts_of(path: str) -> tuple[str, ...]:
    """Split a path into its names. Raises InvalidError for a path with '..' or one that no file can have."""
    names = tuple(name for name in path.split("/") if name not in ("", "."))
    if ".." in names:
        raise InvalidError(f"{path!r} leads out of the job's folders: remove '..'", field="path")
    if "\0" in path or len(path) > _LONGEST:
        raise InvalidError(f"a path must have at most {_LONGEST} characters, and no NUL character", field="path")
    return names


def resolve(parts: tuple[str, ...], stat: Stat, seen_at: str) -> tuple[str, FileEntry]:
    """Return the path with all links resolved, and the entry there.

    `seen_at` is the folder's own path, as the job sees it. Raises NotFoundError if nothing is there, and InvalidError
    for a link that leads out of the folder."""
    done: list[str] = []
    left = list(parts)
    found = stat("")
    links = 0
    while left and found is not None:
        done.append(left.pop(0))
        found = stat("/".join(done))
        if found is not None and found.kind is FileKind.LINK:
            links += 1
            if links > _MAX_LINKS:
                raise InvalidError(f"{'/'.join(parts)} is a chain of too many links", field="path")
            left, done = [*_behind(done, found.target, seen_at), *left], []
            found = stat("")
        elif left and found is not None and found.kind is not FileKind.FOLDER:
            found = None
    if found is None:
        raise NotFoundError(f"there is no {'/'.join(parts)}")
    return "/".join(done), found


def _behind(link: list[str], target: str, seen_at: str) -> list[str]:
    """Return the names that lead to the target of a link. Raises InvalidError for a target outside of the folder."""
    to = PurePosixPath(target)
    if to.is_absolute():
        try:
            to = to.relative_to(seen_at)
        except ValueError:
            raise _outside(link, target) from None
        names: list[str] = []
    else:
        names = link[:-1]
    for name in to.parts:
        if name == "..":
            if not names:
                raise _outside(link, target)
            names.pop()
        else:
            names.append(name)
    return names


def _outside(link: list[str], target: str) -> InvalidError:
    return InvalidError(
        f"{'/'.join(link)} is a link to {target}, which is outside of the job's folders: it can't be read from here",
        field="path",
    )
