"""Copies of virtual environments, which a service keeps to upgrade and to go back."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from schedulearn.scheduler.errors import InvalidError

_HOMES = ("/root", "/home", "/run/user", "/tmp")  # noqa: S108 - compared, not used
_LEFT_OUT = shutil.ignore_patterns("__pycache__")


def version_of(environment: Path) -> str:
    """Return the version of Schedulearn in an environment, with a digest of its files.

    Raises InvalidError for a folder that can't be copied."""
    if not (environment / "pyvenv.cfg").is_file():
        raise InvalidError(
            f"{environment} is not a virtual environment: install Schedulearn into one (python3 -m venv, uv, pipx), "
            "and run this command from it"
        )
    found = sorted(environment.glob("lib/python3*/site-packages/schedulearn-*.dist-info"))
    if len(found) != 1:
        raise InvalidError(f"{environment} has {len(found)} installations of Schedulearn, and one is needed")
    if any(found[0].parent.glob("__editable__*schedulearn*")):
        raise InvalidError(
            f"Schedulearn in {environment} is an editable installation, which can change: install a wheel"
        )
    record = found[0] / "RECORD"
    digest = hashlib.sha256(record.read_bytes() if record.exists() else b"").hexdigest()[:8]
    return f"{found[0].name.removeprefix('schedulearn-').removesuffix('.dist-info')}-{digest}"


def check_interpreter(environment: Path) -> None:
    """Raise InvalidError for an interpreter that the service's user may not be able to run."""
    python = (environment / "bin" / "python").resolve()
    if any(python.is_relative_to(home) for home in _HOMES):
        raise InvalidError(
            f"the interpreter {python} is in a folder of a user, which the service can't read: make the environment "
            "with a Python of the system, such as /usr/bin/python3 -m venv"
        )


def copy_environment(source: Path, target: Path, *, runs_at: Path) -> None:
    """Copy an environment in one step: `target` is complete, or not there. Its scripts work at `runs_at`."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for folder in (target.parent.parent, target.parent, partial):
        make_readable(folder)
    for name in ("bin", "lib", "lib64", "pyvenv.cfg"):
        part = source / name
        if part.is_symlink() or part.is_file():
            shutil.copy2(part, partial / name, follow_symlinks=False)
        elif part.is_dir():
            shutil.copytree(part, partial / name, symlinks=True, ignore=_LEFT_OUT)
    _open_to_all(partial)
    for script in (partial / "bin").iterdir():
        if script.is_file() and not script.is_symlink():
            _move_shebang(script, f"#!{source}/".encode(), f"#!{runs_at}/".encode())
    os.replace(partial, target)


def make_readable(folder: Path) -> None:
    """Make a folder that all accounts may read, whatever the umask. One that is there stays as it is."""
    if not folder.exists():
        make_readable(folder.parent)
        folder.mkdir()
        folder.chmod(0o755)


def _open_to_all(folder: Path) -> None:
    """Let all accounts read a copy: that of a user may be closed, and the service has an account of its own."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def _move_shebang(script: Path, old: bytes, new: bytes) -> None:
    text = script.read_bytes()
    if text.startswith(old):
        script.write_bytes(new + text.removeprefix(old))


def point(link: Path, target: Path) -> None:
    """Point a link to a version beside it, in one step."""
    made = link.with_name(f".{link.name}.new")
    made.unlink(missing_ok=True)
    made.symlink_to(target.relative_to(link.parent))
    os.replace(made, link)
