"""The files of a folder that a job needs, packed to be sent: what is ignored stays, what is too much is told.

Which files go is said by `.schedulearnignore` in the folder, else by the `.gitignore` files in it and below.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from pathspec import GitIgnoreSpec

from schedulearn.api.client.transport import ClientError
from schedulearn.scheduler.code.archive import (
    Entry,
    Kind,
    Written,
    link_stays_inside,
    open_file,
    show_bytes,
    write_archive,
)
from schedulearn.scheduler.errors import InvalidError

OWN_IGNORE, GIT_IGNORE = ".schedulearnignore", ".gitignore"
ALWAYS = (".git", ".hg", ".svn")
USUALLY = (
    "__pycache__/", "*.py[co]", ".ipynb_checkpoints/", ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", ".DS_Store",
    "node_modules/",
)  # fmt: skip
"""Left out unless an ignore file says `!` of it."""
_MOST_SEEN = 500_000  # files that are looked at before the folder counts as the wrong one
_TOLD = 5
_GIT_S = 10.0


@dataclass
class Listing:
    """What of a folder would be sent."""

    entries: list[Entry] = field(default_factory=list)
    bytes: int = 0
    left_out: list[str] = field(default_factory=list)
    """Things that no ignore file names, with the reason."""
    sizes: Counter[str] = field(default_factory=Counter)
    """Folder or file of the first two levels -> bytes."""


@dataclass(frozen=True)
class PackedCode:
    file: IO[bytes]
    written: Written
    files: int
    left_out: Sequence[str]
    commit: str | None
    dirty: bool | None


@contextmanager
def packed_code(folder: Path, max_bytes: int, max_files: int) -> Iterator[PackedCode]:
    """The archive of a folder, in a file that goes when it is left. Raises ClientError for one that can't be sent."""
    check_folder(folder)
    commit, dirty = git_state(folder)
    found = list_files(folder)
    if found.bytes > max_bytes or len(found.entries) > max_files:
        raise ClientError(_too_much(folder, found, max_bytes, max_files))
    with tempfile.TemporaryFile(prefix="schedulearn-code-") as target:
        try:
            written = write_archive(found.entries, target, max_bytes=max_bytes, max_files=max_files)
        except (InvalidError, OSError) as error:
            raise ClientError(f"{folder} can't be sent: {error}") from error
        target.seek(0)
        files = sum(entry.kind is Kind.FILE for entry in found.entries)
        yield PackedCode(target, written, files, found.left_out, commit, dirty)


def check_folder(folder: Path) -> None:
    """Raises ClientError for a folder that nobody means: a home, or one with homes in it."""
    if not folder.is_dir():
        raise ClientError(f"{folder} is no folder")
    whole = folder.resolve()
    if whole == Path(whole.anchor) or Path.home().resolve().is_relative_to(whole):
        raise ClientError(
            f"{whole} is a home folder or has one in it: go to the folder of your code, or name it by --code"
        )


def list_files(folder: Path) -> Listing:
    own = folder / OWN_IGNORE
    rules = _Rules((*USUALLY, *_lines(own)), nested=not own.exists())
    found = Listing()
    _walk(folder, PurePosixPath(), rules, found)
    return found


class _Rules:
    """Which paths are ignored: the rules of the folder, and those of the `.gitignore` files below it."""

    def __init__(self, lines: Sequence[str], *, nested: bool) -> None:
        self._nested = nested
        self._specs: tuple[tuple[str, GitIgnoreSpec], ...] = (("", _spec(lines)),)

    def below(self, folder: Path, path: PurePosixPath) -> _Rules:
        """With those that stand in this folder itself."""
        lines = _lines(folder / GIT_IGNORE) if self._nested else []
        if not lines:
            return self
        made = _Rules.__new__(_Rules)
        made._nested = True
        made._specs = (*self._specs, ("" if path == PurePosixPath() else f"{path}/", _spec(lines)))
        return made

    def ignore(self, path: str) -> bool:
        """`path` ends with a slash if it is a folder. The deepest file that says something is right."""
        for base, spec in reversed(self._specs):
            said = spec.check_file(path.removeprefix(base)).include
            if said is not None:
                return said
        return False


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise ClientError(f"an ignore file has a line that is no pattern: {error}") from error


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ClientError(f"{file} can't be read: {error.strerror}") from error


def _walk(folder: Path, path: PurePosixPath, rules: _Rules, found: Listing) -> None:
    rules = rules.below(folder, path)
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError as error:
        raise ClientError(f"{folder} can't be read: {error.strerror}; leave it out by {OWN_IGNORE}") from error
    if path != PurePosixPath() and not entries:
        found.entries.append(Entry(str(path), Kind.FOLDER))
    for entry in entries:
        if len(found.entries) > _MOST_SEEN:
            raise ClientError(f"there are more than {_MOST_SEEN} files: is this the folder of your code?")
        _take(entry, path / entry.name, rules, found)


def _take(entry: os.DirEntry[str], path: PurePosixPath, rules: _Rules, found: Listing) -> None:
    folder = entry.is_dir(follow_symlinks=False)
    if entry.name in ALWAYS or rules.ignore(f"{path}/" if folder else str(path)):
        return
    if entry.is_symlink():
        target = os.readlink(entry.path)
        if link_stays_inside(str(path), target):
            found.entries.append(Entry(str(path), Kind.LINK, target=target))
        else:
            found.left_out.append(f"{path} (a link that leads outside, to {target})")
    elif folder:
        if os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
            found.left_out.append(f"{path}/ (a virtual environment)")
        else:
            _walk(Path(entry.path), path, rules, found)
    elif entry.is_file():
        status = entry.stat()
        executable = bool(status.st_mode & 0o111)
        content = partial(open_file, entry.path)
        found.entries.append(Entry(str(path), Kind.FILE, status.st_size, executable, open=content))
        found.bytes += status.st_size
        found.sizes["/".join(path.parts[:2])] += status.st_size
    else:
        found.left_out.append(f"{path} (no plain file)")


def _too_much(folder: Path, found: Listing, max_bytes: int, max_files: int) -> str:
    what = f"{len(found.entries)} files with {show_bytes(found.bytes)}"
    largest = ", ".join(f"{path} ({show_bytes(size)})" for path, size in found.sizes.most_common(_TOLD))
    return (
        f"{folder} holds {what}; the service takes {max_files} files and {show_bytes(max_bytes)}. The largest: "
        f"{largest}. Leave out what the job does not need by {OWN_IGNORE} (written like .gitignore); data "
        "belongs on the hosts"
    )


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """(commit, whether something in the folder differs from it); None where it is in no repository."""
    try:
        commit = _git(folder, "rev-parse", "--verify", "HEAD")
        return commit, bool(_git(folder, "status", "--porcelain", "--untracked-files=normal", "--", "."))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "--no-optional-locks", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=_GIT_S
    )
    return done.stdout.strip()
