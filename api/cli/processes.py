"""top JOB: the processes in a job's container."""

from __future__ import annotations

import time

import click

from schedulearn.api.cli.common import Cell, CliSession, clean, console, plain_table, print_json, rich_cell, rich_table
from schedulearn.api.cli.times import show_seconds
from schedulearn.api.client.client import ApiError, Json, UnreachableError
from schedulearn.scheduler.code.archive import show_bytes

_HEADERS = ("PID", "USER", "CPU", "MEMORY", "TIME", "COMMAND")
_ROWS = 30  # on a terminal


def top_of_job(session: CliSession, job_id: str, rank: int | None, interval: float) -> None:
    """Again and again on a terminal, until Ctrl-C or the job ends; else once."""
    seen = session.client.processes(job_id, rank)
    if session.as_json:
        print_json(seen)
    elif session.pretty:
        _live(session, job_id, rank, interval, seen)
    else:
        for line in [_summary(job_id, seen), "", *plain_table(_HEADERS, _rows(seen))]:
            click.echo(line)


def _summary(job_id: str, seen: Json) -> str:
    limit = f" of {show_bytes(seen['memory_limit'])}" if seen["memory_limit"] else ""
    return clean(
        f"job {job_id}, rank {seen['rank']} on {seen['host']}: {len(seen['processes'])} processes, "
        f"{seen['cpu_percent']:.0f}% of a processor, {show_bytes(seen['memory_bytes'])}{limit}"
    )


def _rows(seen: Json) -> list[list[Cell]]:
    return [
        [
            str(each["pid"]),
            each["user"],
            f"{each['cpu_percent']:.0f}%",
            show_bytes(each["memory_bytes"]),
            show_seconds(each["seconds"]),
            each["command"],
        ]
        for each in seen["processes"]
    ]


def _live(session: CliSession, job_id: str, rank: int | None, interval: float, seen: Json) -> None:
    from rich.console import Group
    from rich.live import Live

    def screen(seen: Json) -> Group:
        head = rich_cell((_summary(job_id, seen), "bold"))
        return Group(head, rich_cell(""), rich_table(_HEADERS, _rows(seen)[:_ROWS]))

    try:
        with Live(screen(seen), console=console(), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                try:
                    live.update(screen(session.client.processes(job_id, rank)), refresh=True)
                except UnreachableError as error:
                    live.update(rich_cell((str(error), "bold red")), refresh=True)
    except ApiError as error:
        click.echo(clean(error.detail))  # it has ended
    except KeyboardInterrupt:
        return
