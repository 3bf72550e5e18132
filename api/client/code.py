"""Code folder of a job, packed to be sent.

`.schedulearnignore` in the folder says which files are sent, else git does. Ignored files are skipped; exceeding a
limit raises an error. Where git is missing, or does not know the folder, `.gitignore` files in and below it are read.
"""

from __future__ import annotations

import os
import stat
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

from schedulearn.api.client.errors import ClientError
from schedulearn.scheduler.code.archive import (
    Entry,
    Kind,
    WrittenArchive,
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
"""Skipped unless an ignore file has a `!` rule for it."""
_MAX_SEEN = 500_000  # maximum files, before the folder counts as the wrong one
_TOLD = 5
_GIT_S = 10.0
_LIST_S = 120.0  # an uncached repository of many files takes long
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Variables set in hooks, of a repository that need not be this folder's."""
_BROUGHT = "# Brought by schedulearn: neither committed nor sent with your code, until you remove this file.\n*\n"


@dataclass
class CodeListing:
    """Files of a folder that would be sent, and those that would not."""

    entries: list[Entry] = field(default_factory=list)
    bytes: int = 0
    left_out: list[str] = field(default_factory=list)
    """Entries that no ignore file names, each with the reason."""
    ignored: list[str] = field(default_factory=list)
    """Files and whole folders that an ignore file names, without caches and the like."""
    note: str = ""
    """Reason why git was not used, where it should have been."""
    sizes: Counter[str] = field(default_factory=Counter)
    """Folder or file of the first two levels -> bytes."""


@dataclass(frozen=True)
class PackedCode:
    file: IO[bytes]
    written: WrittenArchive
    files: int
    found: CodeListing
    commit: str | None
    dirty: bool | None


@contextmanager
def packed_code(folder: Path, max_bytes: int, max_files: int) -> Iterator[PackedCode]:
    """Pack a folder into a temporary file, deleted on exit. Raises ClientError if it can't be sent."""
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
        yield PackedCode(target, written, files, found, commit, dirty)


def check_folder(folder: Path) -> None:
    """Raise ClientError for a folder that is surely a mistake: a home, or one with homes in it."""
    if not folder.is_dir():
        raise ClientError(f"{folder} is not a folder")
    whole = folder.resolve()
    if whole == Path(whole.anchor) or Path.home().resolve().is_relative_to(whole):
        raise ClientError(
            f"{whole} is a home folder or has one in it: go to the folder of your code, or name it by --code"
        )


def list_files(folder: Path) -> CodeListing:
    own = (folder / OWN_IGNORE).exists()
    found = CodeListing()
    if not own:
        try:
            return _by_git(folder)
        except _NoGit as error:
            found.note = str(error)
    rules = _Rules((*USUALLY, *_lines(folder / OWN_IGNORE)), nested=not own)
    _walk(folder, PurePosixPath(), rules, found)
    return found


class _NoGit(Exception):
    """git does not know the folder. The text says why, if git should know it."""


def _by_git(folder: Path) -> CodeListing:
    """List what git tracks, and what it would offer to track. Raises _NoGit."""
    if _is_ignored(folder):
        raise _NoGit
    found = CodeListing()
    _take_repository(folder, "", found)
    return found


def _take_repository(folder: Path, prefix: str, found: CodeListing) -> None:
    """Add the files of a folder in a repository.

    Submodules and repositories inside it are listed by themselves."""
    with tempfile.TemporaryDirectory(prefix="schedulearn-git-") as place:
        usually = Path(place, "usually")
        usually.write_text("\n".join(USUALLY))
        # Rules in the repository take precedence over these, which are the weakest.
        rules = (f"--exclude-from={usually}", "--exclude-standard")
        tracked = _git_paths(folder, "ls-files", "-z", "--cached")
        others = _git_paths(folder, "ls-files", "-z", "--others", *rules)
        ignored = _git_paths(folder, "ls-files", "-z", "--others", "--ignored", "--directory", *rules)
    environments = {path.removesuffix("pyvenv.cfg") for path in others if path.endswith("/pyvenv.cfg")}
    found.left_out += [f"{prefix}{path} (a virtual environment)" for path in sorted(environments)]
    usual = _spec(USUALLY)
    found.ignored += [f"{prefix}{path}" for path in _outermost(ignored) if not usual.match_file(path)]
    others = [path for path in others if not any(path.startswith(each) for each in environments)]
    for path in dict.fromkeys((*tracked, *others)):  # a file in a conflict is tracked three times
        whole, name = folder / path, f"{prefix}{path.removesuffix('/')}"
        if len(found.entries) > _MAX_SEEN:
            raise ClientError(f"there are more than {_MAX_SEEN} files: is this the folder of your code?")
        if whole.is_dir() and not whole.is_symlink():  # git lists a folder only if it is a repository
            _take_inner(whole, name, found)
        elif os.path.lexists(whole):  # else it was deleted and is still tracked
            _take_file(os.fspath(whole), PurePosixPath(name), found)


def _outermost(paths: Sequence[str]) -> Iterator[str]:
    """Yield the paths that are not in a folder among them."""
    folder = None
    for path in sorted(paths):
        if folder is None or not path.startswith(folder):
            folder = path if path.endswith("/") else None
            yield path


def _take_inner(folder: Path, name: str, found: CodeListing) -> None:
    if (folder / ".git").exists():
        _take_repository(folder, f"{name}/", found)
    else:
        found.left_out.append(f"{name}/ (a submodule that was not fetched)")


def _is_ignored(folder: Path) -> bool:
    """Return whether the folder as a whole is ignored, like one for results. Raises _NoGit."""
    return _ask_git(folder, "check-ignore", "--quiet", ".").returncode == 0


def _git_paths(folder: Path, *words: str) -> list[str]:
    done = _ask_git(folder, *words)
    return [os.fsdecode(path) for path in done.stdout.split(b"\0") if path]


def _ask_git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run git. Raises _NoGit for a folder that git does not know, or refuses to read."""
    env = {key: value for key, value in os.environ.items() if key not in _ELSEWHERE}
    command = ["git", "--no-optional-locks", *words]
    try:
        done = subprocess.run(
            command, cwd=folder, env={**env, "LC_ALL": "C"}, capture_output=True, timeout=_LIST_S, check=False
        )
    except FileNotFoundError as error:
        raise _NoGit from error
    except (OSError, subprocess.SubprocessError) as error:
        raise _NoGit(f"git failed ({error})") from error
    if done.returncode not in (0, 1):
        why = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise _NoGit("" if "not a git repository" in why[0] else f"git failed ({why[0]})")
    return done


class _Rules:
    """Rules about ignored paths: those of the folder, and those of the `.gitignore` files below it."""

    def __init__(self, lines: Sequence[str], *, nested: bool) -> None:
        self._nested = nested
        self._specs: tuple[tuple[str, GitIgnoreSpec], ...] = (("", _spec(lines)),)

    def below(self, folder: Path, path: PurePosixPath) -> _Rules:
        """Return these rules with those in the folder's own `.gitignore`."""
        lines = _lines(folder / GIT_IGNORE) if self._nested else []
        if not lines:
            return self
        made = _Rules.__new__(_Rules)
        made._nested = True
        made._specs = (*self._specs, ("" if path == PurePosixPath() else f"{path}/", _spec(lines)))
        return made

    def ignore(self, path: str) -> bool:
        """Return whether to ignore `path`, which ends with a slash if it is a folder.

        The deepest file with a rule for it decides."""
        for base, spec in reversed(self._specs):
            said = spec.check_file(path.removeprefix(base)).include
            if said is not None:
                return said
        return False


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError as error:
        raise ClientError(f"invalid line in an ignore file: {error}") from error


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ClientError(f"{file} can't be read: {error.strerror}") from error


def _walk(folder: Path, path: PurePosixPath, rules: _Rules, found: CodeListing) -> None:
    rules = rules.below(folder, path)
    try:
        entries = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError as error:
        raise ClientError(f"{folder} can't be read: {error.strerror}; leave it out by {OWN_IGNORE}") from error
    if path != PurePosixPath() and not entries:
        found.entries.append(Entry(str(path), Kind.FOLDER))
    for entry in entries:
        if len(found.entries) > _MAX_SEEN:
            raise ClientError(f"there are more than {_MAX_SEEN} files: is this the folder of your code?")
        _take(entry, path / entry.name, rules, found)


def _take(entry: os.DirEntry[str], path: PurePosixPath, rules: _Rules, found: CodeListing) -> None:
    folder = entry.is_dir(follow_symlinks=False)
    name = f"{path}/" if folder else str(path)
    if entry.name in ALWAYS:
        return
    if rules.ignore(name) or (folder and is_brought(Path(entry.path))):
        if not _spec(USUALLY).match_file(name):
            found.ignored.append(name)
    elif not folder:
        _take_file(entry.path, path, found)
    elif os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
        found.left_out.append(f"{path}/ (a virtual environment)")
    else:
        _walk(Path(entry.path), path, rules, found)


def _take_file(where: str, path: PurePosixPath, found: CodeListing) -> None:
    """Add a file or a link."""
    status = os.lstat(where)
    if not _is_text(str(path)):
        found.left_out.append(f"{path} (its name is not UTF-8)")
    elif stat.S_ISLNK(status.st_mode):
        target = os.readlink(where)
        if link_stays_inside(str(path), target):
            found.entries.append(Entry(str(path), Kind.LINK, target=target))
        else:
            found.left_out.append(f"{path} (a link that leads outside, to {target})")
    elif stat.S_ISREG(status.st_mode):
        executable = bool(status.st_mode & 0o111)
        found.entries.append(Entry(str(path), Kind.FILE, status.st_size, executable, open=partial(open_file, where)))
        found.bytes += status.st_size
        found.sizes["/".join(path.parts[:2])] += status.st_size
    else:
        found.left_out.append(f"{path} (no plain file)")


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def mark_brought(folder: Path) -> None:
    """Keep a folder that came from a job out of commits, and out of the code sent next."""
    try:
        with (folder / GIT_IGNORE).open("x", encoding="utf-8") as file:
            file.write(_BROUGHT)
    except FileExistsError:
        pass  # the job has its own


def is_brought(folder: Path) -> bool:
    try:
        return (folder / GIT_IGNORE).read_text(encoding="utf-8", errors="replace") == _BROUGHT
    except OSError:
        return False


def _too_much(folder: Path, found: CodeListing, max_bytes: int, max_files: int) -> str:
    what = f"{len(found.entries)} files with {show_bytes(found.bytes)}"
    largest = ", ".join(f"{path} ({show_bytes(size)})" for path, size in found.sizes.most_common(_TOLD))
    return (
        f"{folder} holds {what}; the service takes {max_files} files and {show_bytes(max_bytes)}. The largest: "
        f"{largest}. Leave out what the job does not need with {OWN_IGNORE} (written like .gitignore); data "
        "belongs on the hosts"
    )


def git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Return (commit, whether the folder differs from it); None for both outside a repository."""
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
