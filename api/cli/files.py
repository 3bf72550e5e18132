"""Commands that list and download a job's files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from schedulearn.api.cli.common import (
    Cell,
    CliSession,
    Command,
    Group,
    clean,
    console,
    pass_session,
    print_json,
    print_table,
)
from schedulearn.api.cli.times import show_time
from schedulearn.api.client.files import Progress

if TYPE_CHECKING:
    from rich.progress import TaskID

_OUTPUTS = "outputs"


@click.group("files", cls=Group)
def files() -> None:
    """List and download outputs and checkpoints of jobs.

    They are available while the job runs, and for some weeks after its end."""


@files.command("ls")
@click.argument("job")
@click.argument("path", default=_OUTPUTS)
@click.option("--host", metavar="HOST", help="Only files on this host: a job on several hosts has files on each.")
@pass_session
def ls(session: CliSession, job: str, path: str, host: str | None) -> None:
    """List a folder of a job: `outputs`, `checkpoints`, or one below.

    \b
    Examples:
      schedulearn files ls last
      schedulearn files ls last checkpoints
      schedulearn files ls 4f2a outputs/plots
    """
    found = session.client.files(session.job_id(job), path, host=host)
    if session.as_json:
        print_json(found)
        return
    several = len(found["hosts"]) > 1
    rows: list[list[Cell]] = []
    for item in found["items"]:
        name = clean(item["name"]) + ("/" if item["kind"] == "folder" else "")
        row: list[Cell] = [name, size_text(item["size"]), show_time(item["modified"]) if item["modified"] else ""]
        rows.append([*row, clean(item["host"] or "")] if several else row)
    print_table(session, ("NAME", "SIZE", "MODIFIED", "HOST")[: 4 if several else 3], rows)
    for away in found["away"]:
        click.echo(f"{clean(away)} does not answer: files of the job on that host are not shown", err=True)


@files.command("get")
@click.argument("job")
@click.argument("path")
@click.argument("to", default=".")
@click.option("--host", metavar="HOST", help="Only files on this host: a job on several hosts has files on each.")
@pass_session
def get(session: CliSession, job: str, path: str, to: str, host: str | None) -> None:
    """Download a file or folder of a job.

    TO is an existing folder or the new name. If a download is interrupted, run the same command again to resume it.
    Incomplete files never have the final name.

    \b
    Examples:
      schedulearn files get last outputs/model.pt
      schedulearn files get last outputs results/
    """
    _bring(session, job, path, to, host)


@click.command("cp", cls=Command)
@click.argument("source", metavar="JOB:PATH")
@click.argument("to", default=".")
@click.option("--host", metavar="HOST", help="Only files on this host: a job on several hosts has files on each.")
@pass_session
def cp(session: CliSession, source: str, to: str, host: str | None) -> None:
    """Copy a file or folder of a job, like `files get`.

    \b
    Examples:
      schedulearn cp last:/outputs/model.pt .
      schedulearn cp 4f2a:/outputs results/
    """
    job, colon, path = source.partition(":")
    if not colon or not job or not path.strip("/"):
        raise click.BadParameter(
            f"{clean(source)!r} is not JOB:PATH, such as last:/outputs/model.pt: a job's files come here only",
            param_hint="JOB:PATH",
        )
    _bring(session, job, path, to, host)


def _bring(session: CliSession, job: str, path: str, to: str, host: str | None) -> None:
    job_id = session.job_id(job)

    def left_out(name: str) -> None:
        click.echo(f"left out: {clean(name)} is a link that leads out of {clean(path)}, or no file", err=True)

    with _progress(session, path) as progress:
        where = session.client.download(job_id, path, to, host=host, on_progress=progress, on_left_out=left_out)
    if where.is_dir() and where.resolve().is_relative_to(Path.cwd()):
        from schedulearn.api.client.code import mark_brought

        mark_brought(where)
    if session.as_json:
        print_json({"path": str(where)})
    else:
        click.echo(clean(str(where)))


@contextmanager
def _progress(session: CliSession, path: str) -> Iterator[Progress]:
    """Show a progress bar if stderr is a terminal and --json is not given."""
    if session.as_json or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console(stderr=True), transient=True) as bars:
        task: TaskID = bars.add_task(clean(path), total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def size_text(size: int | None) -> str:
    """Return a size as text: 45 MB, 1.2 GB; empty for None."""
    if size is None:
        return ""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.{0 if size >= 10 * factor else 1}f} {unit}"
    return f"{size} B"
