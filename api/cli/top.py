"""Command `top`, which shows the cluster at a glance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from schedulearn.api.cli.common import (
    Cell,
    CliSession,
    Command,
    clean,
    console,
    pass_session,
    plain_table,
    print_json,
    rich_cell,
    rich_table,
)
from schedulearn.api.cli.jobs import JOB_HEADERS, job_row
from schedulearn.api.cli.processes import top_of_job
from schedulearn.api.cli.resources import RATE_HEADERS, RESOURCE_HEADERS, TASK_HEADERS, of_host, of_task, rates_of
from schedulearn.api.client.client import Json, UnreachableError
from schedulearn.scheduler.core.states import UNFINISHED, WAITS, JobState

if TYPE_CHECKING:
    from rich.console import RenderableType

_GPU_HEADERS = ("GPU", "TYPE", "UTIL", "JOBS")
_ROWS = 20  # maximum rows of each list on a terminal


@dataclass(frozen=True)
class _View:
    policy: Json
    hosts: list[Json]
    jobs: list[Json]
    tasks: list[Json]

    @property
    def gpus(self) -> list[Json]:
        return [gpu for host in self.hosts for gpu in host["gpus"]]

    @property
    def holding(self) -> list[Json]:
        return [job for job in self.jobs if JobState(job["state"]).holds_gpus]

    @property
    def waiting(self) -> list[Json]:
        """Waiting jobs, by priority, then by time of submission."""
        queued = [job for job in self.jobs if job["state"] in WAITS]
        return sorted(queued, key=lambda job: (-job["priority"], job["submitted_at"], job["id"]))

    @property
    def summary(self) -> str:
        used = sum(1 for gpu in self.gpus if gpu["jobs"])
        return (
            f"{used} of {len(self.gpus)} GPUs in use, {len(self.holding)} jobs on them, {len(self.waiting)} waiting; "
            f"policy {self.policy['algorithm']}, metric {self.policy['metric']}"
        )

    def gpu_rows(self) -> list[list[Cell]]:
        names = {job["id"]: job["name"] for job in self.jobs}
        return [
            [
                f"{gpu['host']}:{gpu['index']}",
                gpu["type"],
                "-" if gpu["utilization"] is None else f"{gpu['utilization']:.0f}%",
                (", ".join(f"{job} {names.get(job, '')}".strip() for job in gpu["jobs"]) or "free", "green"),
            ]
            for gpu in self.gpus
        ]


@click.command(cls=Command)
@click.argument("job", required=False, metavar="[JOB]")
@click.option("--rank", type=click.IntRange(0), help="With JOB: its container.  [default: the first]")
@click.option(
    "--interval", type=click.FloatRange(0.2, 3600), default=1.0, show_default=True, help="Seconds between updates."
)
@pass_session
def top(session: CliSession, job: str | None, rank: int | None, interval: float) -> None:
    """Show GPUs, hosts, containers, jobs and the queue live.

    It refreshes until Ctrl-C. In a pipe or with --json it prints once. With a JOB, it shows the processes in its
    containers and their use of resources.

    \b
    Examples:
      schedulearn top
      schedulearn top last
      schedulearn top --json
    """
    if job is not None:
        top_of_job(session, session.job_id(job), rank, interval)
        return
    if rank is not None:
        raise click.UsageError("--rank needs a JOB")
    view = _load(session)
    if session.as_json:
        print_json({"policy": view.policy, "hosts": view.hosts, "jobs": view.jobs, "resources": view.tasks})
    elif session.pretty:
        _live(session, view, interval)
    else:
        click.echo(clean(view.summary))
        for title, headers, rows in _sections(view):
            click.echo(f"\n{title}")
            for line in plain_table(headers, rows):
                click.echo(line)


def _load(session: CliSession) -> _View:
    client = session.client
    jobs = client.all_jobs(UNFINISHED)["items"]
    return _View(client.policy(), client.hosts(), jobs, client.resources())


def _sections(view: _View) -> list[tuple[str, Sequence[str], list[list[Cell]]]]:
    sections: list[tuple[str, Sequence[str], list[list[Cell]]]] = [("GPUs", _GPU_HEADERS, view.gpu_rows())]
    names = {job["id"]: job["name"] for job in view.jobs}
    told = [[host["id"], *of_host(taken), *rates_of(taken)] for host in view.hosts if (taken := host["resources"])]
    for title, headers, rows in (
        ("Hosts", ("HOST", *RESOURCE_HEADERS, *RATE_HEADERS), told),
        ("Containers", TASK_HEADERS, [of_task(task, names) for task in view.tasks]),
    ):
        if rows:
            sections.append((title, headers, rows))
    for title, jobs in (("Running", view.holding), ("Queue", view.waiting)):
        if jobs:
            sections.append((title, JOB_HEADERS, [job_row(job) for job in jobs]))
    return sections


def _live(session: CliSession, view: _View, interval: float) -> None:
    from rich.live import Live

    try:
        with Live(_screen(view), console=console(), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                try:
                    live.update(_screen(_load(session)), refresh=True)
                except UnreachableError as error:
                    live.update(rich_cell((str(error), "bold red")), refresh=True)
    except KeyboardInterrupt:
        return


def _screen(view: _View) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar

    used = sum(1 for gpu in view.gpus if gpu["jobs"])
    parts: list[RenderableType] = [
        rich_cell((view.summary, "bold")),
        ProgressBar(total=max(1, len(view.gpus)), completed=used, width=60),
    ]
    for title, headers, rows in _sections(view):
        parts += [rich_cell(""), rich_cell((title, "bold underline")), rich_table(headers, rows[:_ROWS])]
        if rows[_ROWS:]:
            parts.append(rich_cell((f"and {len(rows) - _ROWS} more", "dim")))
    return Group(*parts)
