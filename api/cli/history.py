"""Commands `events`, `timeline` and `telemetry`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from schedulearn.api.cli.common import (
    INTERRUPTED,
    Cell,
    CliSession,
    Command,
    clean,
    pass_session,
    print_json,
    print_table,
)
from schedulearn.api.cli.resources import series_headers, series_rows
from schedulearn.api.cli.times import Parsed, parse_past, show_seconds, show_time, since_option
from schedulearn.api.client.client import Json

_PAGE = 1000
_COLUMNS = ("id", "at", "kind", "actor", "address", "about", "job_id", "host_id", "code", "message", "data")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

UNITS = {"utilization": (1.0, "%"), "memory_bytes": (1 / (1 << 30), " GiB"), "temperature": (1.0, " °C"),
         "power_w": (1.0, " W")}  # fmt: skip


@click.command(cls=Command)
@click.option("-q", "text", default="", metavar="TEXT", help="Only events with this text in the message, or this code.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only kinds that begin with this: job., host.lost. Repeatable.",
)
@click.option("--job", default="", help="Only events of this job.")
@click.option("--host", default="", help="Only events of this host.")
@click.option("--actor", default="", metavar="USER", help="Only what this user did; '*': what any user did.")
@click.option("--about", default="", metavar="THING", help="Only changes of this: user:ada, token:NAME, quota:ada.")
@since_option("Only events since then: 90m, 7d, 2026-12-24.")
@click.option("--until", type=Parsed(parse_past), metavar="TIME", help="Only events before then.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    help="Number of newest events to show.  [default: 50, or all with --since or --format]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "jsonl"]),
    default="table",
    show_default=True,
    help="csv and jsonl: all columns, newest first.",
)
@click.option("-f", "--follow", is_flag=True, help="Show new events until Ctrl-C.")
@pass_session
def events(
    session: CliSession,
    /,
    text: str,
    kinds: tuple[str, ...],
    limit: int | None,
    form: str,
    follow: bool,
    **filters: str | None,
) -> int | None:
    """Show events, oldest first.

    -f shows new events as they happen, one per line.

    \b
    Examples:
      schedulearn events --kind job.failed
      schedulearn events --job last
      schedulearn events --actor ada --since 7d
      schedulearn events --actor '*' --since 30d --format csv > changes.csv
      schedulearn events -f
    """
    given = {name: value for name, value in filters.items() if value}
    if follow:
        if text or kinds or given or form != "table":
            raise click.UsageError("-f shows everything: leave the filters out, or pipe it through grep")
        return _follow(session)
    if "job" in given:
        given["job"] = session.job_id(given["job"])
    most = limit or (None if "since" in given or form != "table" else 50)
    pages = _pages(session, most, q=text, kinds=kinds, **given)
    if session.as_json:
        print_json(_joined(pages))
        return None
    found = (event for page in pages for event in page["items"])
    if form != "table":
        _write(form, found)
    else:
        rows = [
            [show_time(each["at"]), each["kind"], _thing(each), each["actor"] or "-", each["message"]] for each in found
        ]
        print_table(session, ("AT", "KIND", "OF", "BY", "WHAT"), rows[::-1])
    return None


def _pages(session: CliSession, most: int | None, **criteria: Any) -> Iterator[Json]:
    """Yield pages of the newest events that match, with at most `most` in all."""
    before: dict[str, Any] = {}
    while most is None or most > 0:
        size = min(most or _PAGE, _PAGE)
        found = session.client.search_events(**criteria, **before, limit=size)
        yield found
        if found["next_before"] is None:
            return
        before = {"before": found["next_before"]}
        most = None if most is None else most - len(found["items"])


def _joined(pages: Iterator[Json]) -> Json:
    joined: Json = {"items": [], "names": {}}
    for page in pages:
        joined["items"] += page["items"]
        joined["names"].update(page["names"])
    return joined


def _write(form: str, found: Iterator[Json]) -> None:
    if form == "jsonl":
        for each in found:
            click.echo(json.dumps(each))
        return
    table = csv.writer(sys.stdout)
    table.writerow(_COLUMNS)
    for each in found:
        values = {**each, "data": json.dumps(each["data"])}
        table.writerow([_cell(values[name]) for name in _COLUMNS])


def _cell(value: object) -> object:
    """Return a value that no spreadsheet takes for a formula, and no terminal for a command.

    Users choose names in messages."""
    if not isinstance(value, str):
        return value
    return clean(f"'{value}" if value.startswith(_FORMULA) else value)


def _thing(event: Json) -> str:
    return str(event["job_id"] or event["host_id"] or event["about"] or "-")


def _follow(session: CliSession) -> int:
    newest = session.client.events(limit=1)["items"]
    try:
        for event in session.client.follow_events(
            newest[-1]["id"] if newest else 0, lambda why: click.echo(clean(why), err=True)
        ):
            line = f"{show_time(event['at'])}  {event['kind']}  {_thing(event)}  {event['message']}"
            click.echo(json.dumps(event) if session.as_json else clean(line))
    except KeyboardInterrupt:
        pass
    return INTERRUPTED


@click.command(cls=Command)
@since_option("Start of the period: 90m, 7d, 2026-12-24.  [default: 24h]", default="24h")
@pass_session
def timeline(session: CliSession, since: str) -> None:
    """Show which jobs used which GPUs, one line per container.

    Oldest first.

    \b
    Example:
      schedulearn timeline --since 2h
    """
    found = session.client.timeline(since, limit=20_000)
    if session.as_json:
        print_json(found)
        return
    lanes = found["lanes"]
    rows: list[list[Cell]] = [
        [
            span["job"],
            span["name"],
            span["user"] or "-",
            _gpus([lanes[lane] for lane in span["lanes"]]),
            show_time(span["claimed_at"]),
            show_time(span["finished_at"]) if span["finished_at"] else "still",
            span["outcome"] or "-",
        ]
        for span in reversed(found["spans"])
    ]
    print_table(session, ("JOB", "NAME", "USER", "GPUS", "FROM", "TO", "OUTCOME"), rows)
    if not found["complete"]:
        click.echo("There are more: choose a shorter period.", err=True)


def _gpus(lanes: list[Json]) -> str:
    """Return GPUs as `atlas:0,1,2`, with a space between hosts."""
    hosts: dict[str, list[str]] = {}
    for lane in lanes:
        hosts.setdefault(lane["host"], []).append(str(lane["index"]))
    return " ".join(f"{host}:{','.join(indices)}" for host, indices in hosts.items()) or "-"


@click.command(cls=Command)
@click.option("--job", default="", help="GPUs of this job, while it held them.")
@click.option("--host", default="", help="GPUs of this host.")
@since_option("Start of the period: 12h, today.  [default: 10m, or the job's start]")
@pass_session
def telemetry(session: CliSession, job: str, host: str, since: str | None) -> None:
    """Show mean and maximum utilization of GPUs and hosts.

    For GPUs: utilization, memory, temperature and power. For containers or the host: processors, memory, network and
    disk. --json prints the whole series.

    \b
    Examples:
      schedulearn telemetry --host gpu2 --since 24h
      schedulearn telemetry --job last --json
    """
    if bool(job) == bool(host):
        raise click.UsageError("choose a job or a host: --job JOB or --host HOST")
    if job:
        found = session.client.job_telemetry(session.job_id(job), since)
    else:
        found = session.client.host_telemetry(host, since)
    if session.as_json:
        print_json(found)
        return
    names = found["metrics"]
    headers = ("HOST", "GPU", "POINTS", *(name.partition("_")[0].upper() for name in names))
    print_table(session, headers, [[*_of(gpu), *_columns(gpu["points"], names)] for gpu in found["gpus"]])
    click.echo(f"Mean and highest; a point stands for {show_seconds(found['step_s'])}.", err=True)
    taken = found["resources"]
    if any(series["points"] for series in taken["series"]):
        click.echo("")
        print_table(session, series_headers(taken), series_rows(taken))
        click.echo(f"Mean and highest; a point stands for {show_seconds(taken['step_s'])}.", err=True)


def _of(gpu: Json) -> list[Cell]:
    return [gpu["host"], str(gpu["index"]), str(len(gpu["points"]))]


def _columns(points: list[list[float | None]], names: list[str]) -> Iterator[Cell]:
    for column, name in enumerate(names, 1):
        values = [value for point in points if (value := point[column]) is not None]
        factor, unit = UNITS[name]
        yield f"{sum(values) / len(values) * factor:.0f} {max(values) * factor:.0f}{unit}" if values else "-"
