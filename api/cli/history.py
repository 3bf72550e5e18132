"""Commands `events`, `timeline` and `telemetry`."""

from __future__ import annotations

import json
from collections.abc import Iterator

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
from schedulearn.api.cli.times import show_seconds, show_time, since_option
from schedulearn.api.client.client import Json

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
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Number of newest events to show.",
)
@click.option("-f", "--follow", is_flag=True, help="Show new events until Ctrl-C.")
@pass_session
def events(
    session: CliSession, text: str, kinds: tuple[str, ...], job: str, host: str, limit: int, follow: bool
) -> int | None:
    """Show events, oldest first.

    -f shows new events as they happen, one per line.

    \b
    Examples:
      schedulearn events --kind job.failed
      schedulearn events --job last
      schedulearn events -f
    """
    if follow:
        if text or kinds or job or host:
            raise click.UsageError("-f shows everything: leave the filters out, or pipe it through grep")
        return _follow(session)
    given = {name: value for name, value in (("job", session.job_id(job) if job else ""), ("host", host)) if value}
    found = session.client.search_events(text, kinds=kinds, limit=limit, **given)
    if session.as_json:
        print_json(found)
        return None
    rows = [
        [show_time(each["at"]), each["kind"], each["job_id"] or each["host_id"] or "-", each["message"]]
        for each in reversed(found["items"])
    ]
    print_table(session, ("AT", "KIND", "OF", "WHAT"), rows)
    return None


def _follow(session: CliSession) -> int:
    newest = session.client.events(limit=1)["items"]
    try:
        for event in session.client.follow_events(
            newest[-1]["id"] if newest else 0, lambda why: click.echo(clean(why), err=True)
        ):
            of = event["job_id"] or event["host_id"] or "-"
            line = f"{show_time(event['at'])}  {event['kind']}  {of}  {event['message']}"
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
