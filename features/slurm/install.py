"""Commands `slurm install` and `slurm uninstall`: Slurm's programs as small scripts on PATH."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from schedulearn.api.cli.common import Command, clean
from schedulearn.api.client.client import ClientError

PROGRAMS = ("sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "sacct", "scontrol", "sprio")
_MARK = "# Made by `schedulearn slurm install`; `schedulearn slurm uninstall` removes it."


@click.command(cls=Command)
@click.option("--into", metavar="FOLDER", help="Folder on PATH.  [default: that of `schedulearn`, or ~/.local/bin]")
def install(into: str | None) -> None:
    """Put Slurm's programs on PATH, as small scripts that call `schedulearn slurm`.

    It refuses if PATH has a program of one of these names that is not ours: a real Slurm is never hidden.

    \b
    Example:
      schedulearn slurm install
    """
    folder = Path(into).expanduser().absolute() if into else _folder()
    if taken := [found for name in PROGRAMS for found in _others(name, folder)]:
        raise ClientError(
            f"{taken[0]} is not ours, and a real Slurm must not be hidden: nothing was installed. "
            "Use `schedulearn slurm squeue` and its like as they are"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in PROGRAMS:
            _write(folder / name, name)
    except OSError as error:
        raise ClientError(
            f"can't write {error.filename or folder}: {error.strerror}; choose a folder with --into"
        ) from error
    click.echo(f"Installed {', '.join(PROGRAMS)} in {clean(str(folder))}")
    if str(folder) not in os.get_exec_path():
        click.echo(f"schedulearn: {clean(str(folder))} is not on PATH: add it", err=True)


@click.command(cls=Command)
@click.option("--from", "from_", metavar="FOLDER", help="Folder that has them.  [default: as for install]")
def uninstall(from_: str | None) -> None:
    """Remove the programs that `slurm install` wrote, and no others.

    \b
    Example:
      schedulearn slurm uninstall
    """
    folders = [Path(from_).expanduser().absolute()] if from_ else [_beside(), _local()]
    removed = []
    for path in (folder / name for folder in folders for name in PROGRAMS):
        if _is_ours(path):
            try:
                path.unlink()
            except OSError as error:
                raise ClientError(f"can't remove {path}: {error.strerror}") from error
            removed.append(str(path))
    click.echo(f"Removed {len(removed)} programs" if removed else "There are none of ours")


def _folder() -> Path:
    """Return the folder of the command `schedulearn` if it can be written, else ~/.local/bin."""
    beside = _beside()
    return beside if os.access(beside, os.W_OK) else _local()


def _beside() -> Path:
    return Path(_schedulearn()).absolute().parent


def _schedulearn() -> str:
    """Return the path of the command that runs."""
    beside = Path(sys.executable).with_name("schedulearn")
    return shutil.which(sys.argv[0]) or (str(beside) if beside.exists() else shutil.which("schedulearn")) or sys.argv[0]


def _local() -> Path:
    return Path("~/.local/bin").expanduser()


def _others(name: str, folder: Path) -> Iterator[str]:
    """Yield programs of this name that are not ours, on PATH or in the folder."""
    for place in dict.fromkeys([*os.get_exec_path(), str(folder)]):
        path = Path(place) / name
        if (os.path.lexists(path)) and not _is_ours(path):
            yield str(path)


def _is_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _MARK.encode() in file.read(400)
    except OSError:
        return False


def _write(path: Path, name: str) -> None:
    """Write a script; a program that runs it meanwhile keeps the old one."""
    command = shlex.quote(_schedulearn())
    made = path.with_name(f".{name}.new")
    made.write_text(f'#!/bin/sh\n{_MARK}\nexec {command} slurm {name} "$@"\n')
    made.chmod(0o755)
    made.replace(path)
