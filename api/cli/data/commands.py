"""data: pushed, listed, brought here, removed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedulearn.api.cli.common import (
    Cell,
    CliSession,
    Group,
    clean,
    console,
    pass_session,
    print_json,
    print_table,
)
from schedulearn.api.cli.files import size_text
from schedulearn.api.cli.times import show_time
from schedulearn.api.client.client import Json

if TYPE_CHECKING:
    from rich.progress import TaskID

_TOLD = 5
Progress = Callable[[str, int, int | None], None]


@click.group("data", cls=Group)
def data() -> None:
    """Manage data sets and models, which jobs use by name.

    To use one: `schedulearn run --data faces -- python train.py`."""


@data.command("push")
@click.argument("name")
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@pass_session
def push(session: CliSession, name: str, folder: Path) -> None:
    """Upload a folder or file as a new version of a data set.

    Only files that the service lacks are sent. If a push is interrupted, run the same command again to resume it. An
    unchanged folder creates no new version.

    \b
    Examples:
      schedulearn data push faces ./faces
      schedulearn data push faces ./faces --json
    """
    left: list[str] = []
    with _progress(session, clean(name)) as progress:
        made = session.client.push_data(name, folder, on_progress=progress, on_left_out=left.append)
    for each in left[:_TOLD]:
        click.echo(f"left out {clean(each)}", err=True)
    if len(left) > _TOLD:
        click.echo(f"left out {len(left) - _TOLD} more of that kind", err=True)
    if session.as_json:
        print_json(made)
    else:
        click.echo(f"{clean(made['reference'])}: {_content(made)}")


@data.command("ls")
@click.argument("name", required=False)
@pass_session
def ls(session: CliSession, name: str | None) -> None:
    """List data sets and models, or the versions of one.

    \b
    Examples:
      schedulearn data ls
      schedulearn data ls faces
    """
    found = session.client.data_versions(name) if name is not None else session.client.data()
    if session.as_json:
        print_json({"items": found})
        return
    rows: list[list[Cell]] = []
    for each in found:
        row: list[Cell] = [clean(each["reference"]), size_text(each["bytes"]), str(each["files"])]
        rows.append([*row, show_time(each["created_at"]), clean(each["user"]), each["job_id"] or ""])
    print_table(session, ("NAME", "SIZE", "FILES", "MADE", "BY", "FROM JOB"), rows)


@data.command("get")
@click.argument("name", metavar="NAME[@VERSION]")
@click.argument("to", required=False, type=click.Path(path_type=Path))
@pass_session
def get(session: CliSession, name: str, to: Path | None) -> None:
    """Download a data set or model into the new folder TO.

    [default: ./NAME]

    \b
    Examples:
      schedulearn data get digits-model
      schedulearn data get faces@2 /tmp/faces
    """
    name, version = _split(name)
    with _progress(session, clean(name)) as progress:
        where = session.client.get_data(
            name, to or Path(name), version, on_progress=lambda done, total: progress("receiving", done, total)
        )
    if session.as_json:
        print_json({"path": str(where)})
    else:
        click.echo(clean(str(where)))


@data.command("rm")
@click.argument("name", metavar="NAME[@VERSION]")
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation on a terminal.")
@pass_session
def rm(session: CliSession, name: str, yes: bool) -> None:
    """Delete a data set or model, or one version of it.

    This can't be undone. It is refused while an unfinished job needs the data.

    \b
    Examples:
      schedulearn data rm faces@1
      schedulearn data rm faces
    """
    name, version = _split(name)
    if session.pretty and not yes:
        what = f"version {version} of {clean(name)}" if version else f"all versions of {clean(name)}"
        click.confirm(f"Remove {what}?", abort=True)
    gone = session.client.remove_data(name, version)
    if session.as_json:
        print_json({"items": gone})
        return
    for each in gone:
        click.echo(f"{clean(each['reference'])} removed ({_content(each)})")


def _split(given: str) -> tuple[str, int | None]:
    name, at, number = given.partition("@")
    if at and not (number.isascii() and number.isdigit()):
        raise click.BadParameter(
            f"{clean(given)!r} is not NAME or NAME@VERSION, such as faces@2", param_hint="NAME[@VERSION]"
        )
    return name, int(number) if at else None


def _content(version: Json) -> str:
    files = version["files"]
    return f"{files} file{'s' * (files != 1)}, {size_text(version['bytes'])}"


@contextmanager
def _progress(session: CliSession, name: str) -> Iterator[Progress]:
    """A bar on a terminal; nothing in a pipe."""
    if session.as_json or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console(stderr=True), transient=True) as bars:
        task: TaskID = bars.add_task(name, total=None)
        yield lambda what, done, total: bars.update(task, description=f"{what} {name}", completed=done, total=total)
