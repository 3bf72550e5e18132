"""Command group `maintenance`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Cell, CliSession, Group, pass_session, print_json, print_table
from schedulearn.api.cli.times import Parsed, parse_instant, parse_seconds, show_time
from schedulearn.api.client.client import Json


@click.group(cls=Group)
def maintenance() -> None:
    """Manage maintenance windows of hosts.

    No job starts that would run into a window. Its hosts drain at its begin, and return at its end."""


@maintenance.command("ls")
@pass_session
def list_windows(session: CliSession) -> None:
    """List the windows that are not over, the next one first.

    \b
    Example:
      schedulearn maintenance ls
    """
    found = session.client.maintenance_windows()
    if session.as_json:
        print_json(found)
        return
    print_table(session, ("ID", "HOSTS", "FROM", "TO", "EVERY", "REASON"), list(map(_row, found["items"])))


def _row(found: Json) -> list[Cell]:
    every = f"{found['every']} {found['time_zone']}" if found["every"] else "-"
    hosts = ",".join(found["hosts"]) or "all"
    return [str(found["id"]), hosts, show_time(found["start"]), show_time(found["end"]), every, found["reason"]]


@maintenance.command("add")
@click.option("--host", "hosts", multiple=True, metavar="HOST", help="Host of the window. Repeatable.  [default: all]")
@click.option("--from", "start", type=Parsed(parse_instant), metavar="WHEN", help="Begin.  [default: now]")
@click.option("--to", "end", type=Parsed(parse_instant), metavar="WHEN", help="End.")
@click.option("--for", "duration", type=Parsed(parse_seconds), metavar="TIME", help="Length, instead of --to.")
@click.option("--every", metavar="CRON", help='Repeated begin, as in "0 4 * * SUN", with --for.')
@click.option("--time-zone", metavar="NAME", help="Time zone of --every.  [default: the service's]")
@click.option("--reason", default="", metavar="TEXT", help="Reason that users see.")
@click.option(
    "--deadline",
    type=Parsed(parse_seconds),
    default="0",
    metavar="TIME",
    help="Time after the begin at which rigid jobs are stopped too.  [default: 0]",
)
@pass_session
def add(
    session: CliSession,
    /,
    hosts: tuple[str, ...],
    start: str | None,
    end: str | None,
    duration: float | None,
    every: str | None,
    time_zone: str | None,
    reason: str,
    deadline: float,
) -> None:
    """Add a window, once or repeated.

    \b
    Examples:
      schedulearn maintenance add --host ada-1 --from 2026-12-24T12:00 --for 1h --reason "new disks"
      schedulearn maintenance add --every "0 4 * * SUN" --for 2h
    """
    made = session.client.add_maintenance(
        hosts, start=start, end=end, every=every, duration=duration, time_zone=time_zone, reason=reason,
        deadline=deadline,
    )  # fmt: skip
    if session.as_json:
        print_json(made)
        return
    where = ", ".join(made["hosts"]) or "all hosts"
    click.echo(f"Window {made['id']} of {where}: from {show_time(made['start'])} to {show_time(made['end'])}")


@maintenance.command("rm")
@click.argument("window_id", metavar="WINDOW", type=int)
@pass_session
def remove(session: CliSession, /, window_id: int) -> None:
    """Delete a window. Hosts that it has drained return to service.

    \b
    Example:
      schedulearn maintenance rm 3
    """
    session.client.delete_maintenance(window_id)
    if not session.as_json:
        click.echo(f"window {window_id} is deleted")
