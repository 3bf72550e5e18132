"""Command group `quota`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

from schedulearn.api.cli.common import CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import Parsed, parse_seconds, show_seconds
from schedulearn.api.client.client import Json
from schedulearn.scheduler.core.people import ANY

BOUNDS = {
    "gpus": "GPUs at once",
    "gpu_hours": "GPU-hours within seven days",
    "waiting": "jobs waiting",
    "cpu_jobs": "jobs without GPUs",
    "cpus": "processors of those",
    "memory_gib": "GiB of memory of those",
}
"""Bounds whose current use is known."""
SHARE_COLUMNS = ("GROUP", "GPUS HELD", "GUARANTEED", "BORROWED")
COLUMNS = ("GPUS", "GPU-HOURS", "WAITING", "CPU-JOBS", "CPUS", "MEMORY-GIB", "A-MINUTE", "PRIO", "MAX-TIME", "TIME")


def bound_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for bounds of users and groups."""
    for option in (
        click.option(
            "--default-duration",
            type=Parsed(parse_seconds),
            metavar="TIME",
            help="Maximum run time of jobs that state none: seconds, 30m, 2h, 1d.",
        ),
        click.option(
            "--max-duration", type=Parsed(parse_seconds), metavar="TIME", help="Longest maximum run time of a job."
        ),
        click.option("--priority", type=click.IntRange(0, 100), help="Highest priority of a job."),
        click.option(
            "--memory-gib", type=click.FloatRange(0), help="GiB of memory that jobs without GPUs request together."
        ),
        click.option("--cpus", type=click.FloatRange(0), help="Processors that jobs without GPUs request together."),
        click.option("--cpu-jobs", type=click.IntRange(0), help="Jobs without GPUs that run at once."),
        click.option("--submissions", type=click.IntRange(0), help="Jobs submitted within a minute."),
        click.option("--waiting", type=click.IntRange(0), help="Jobs that have not started."),
        click.option("--gpu-hours", type=click.FloatRange(0), help="GPU-hours within seven days."),
        click.option("--gpus", type=click.IntRange(0), help="GPUs held at once."),
    ):  # the last one is listed first
        command = option(command)
    return command


@click.group(cls=Group)
def quota() -> None:
    """Manage the quotas of users.

    Running jobs are never stopped because of a quota."""


@quota.command("ls")
@pass_session
def list_quotas(session: CliSession) -> None:
    """List quotas with the current use of each user, and guarantees of groups.

    `*` is the default for users without their own quota.

    \b
    Example:
      schedulearn quota ls
    """
    found = session.client.quotas()
    if session.as_json:
        print_json(found)
        return
    rows = [
        [
            each["user"],
            *(use(each, name) for name in BOUNDS),
            shown(each["submissions"]),
            *rest(each),
            f"{each['weight']:g}",
        ]
        for each in found["items"]
    ]
    print_table(session, ("USER", *COLUMNS, "WEIGHT"), rows)
    groups = session.client.groups()
    if any(each["guarantee"] for each in groups["items"]):
        click.echo()
        print_table(session, SHARE_COLUMNS, [[each["name"], *share_row(each)] for each in groups["items"]])
    if groups["problem"]:
        click.echo(f"warning: {clean(groups['problem'])}", err=True)


@quota.command("set")
@click.argument("user")
@bound_options
@click.option("--weight", type=click.FloatRange(0.001, 1000), help="Share against others, with the setting fair_share.")
@pass_session
def set_quota(session: CliSession, /, user: str, **bounds: float | None) -> None:
    """Set the quota of a user.

    '*' sets the default for users without their own quota. Options that you leave out mean no limit.

    \b
    Examples:
      schedulearn quota set ada --gpus 8 --gpu-hours 500
      schedulearn quota set '*' --gpus 4 --waiting 100 --submissions 60 --cpu-jobs 4
    """
    tell_bounds(session, user, session.client.set_quota(user, given(bounds)), bounds)


@quota.command("rm")
@click.argument("user")
@pass_session
def remove(session: CliSession, user: str) -> None:
    """Remove a user's quota; the default quota '*' then applies.

    \b
    Example:
      schedulearn quota rm ada
    """
    session.client.remove_quota(user)
    if not session.as_json:
        click.echo(f"{clean(user)} has no quota of their own")


def used_lines(quota: Json) -> list[str]:
    """Return the use of a quota, a line for each bound."""
    return [f"  {what}: {use(quota, name)}" for name, what in BOUNDS.items() if quota[name] is not None]


def guarantee_shown(group: Json) -> str:
    """Return the guaranteed GPUs of a group, such as `8 + 4 a100`."""
    guarantee = group["guarantee"]
    shares = [f"{gpus}" if name == ANY else f"{gpus} {clean(name)}" for name, gpus in sorted(guarantee.items())]
    return " + ".join(shares) or "-"


def share_row(group: Json) -> list[str]:
    """Return the use, guarantee and borrowed GPUs of a group, as columns."""
    held, borrowed = group["used"]["gpus"], group["borrowed"]
    return [f"{held}", guarantee_shown(group), "-" if borrowed is None else f"{borrowed}"]


def given(bounds: Mapping[str, float | None]) -> dict[str, float]:
    """Return the bounds without those that were left out."""
    return {name: value for name, value in bounds.items() if value is not None}


def tell_bounds(session: CliSession, whose: str, made: Json, bounds: Mapping[str, float | None]) -> None:
    """Print the result of a change: `made` as JSON, or the given bounds in one line."""
    if session.as_json:
        print_json(made)
        return
    said = [f"{name.replace('_', '-')} {value:g}" for name, value in given(bounds).items()]
    click.echo(f"{clean(whose)}: {', '.join(said) or 'no bound'}")


def use(quota: Json, name: str) -> str:
    if quota[name] is None or quota["used"] is None:
        return shown(quota[name])
    return f"{quota['used'][name]:.4g} of {quota[name]:g}"


def rest(quota: Json) -> list[str]:
    """Return the bounds of single jobs, as columns."""
    lengths = (quota["max_duration"], quota["default_duration"])
    return [shown(quota["priority"]), *("-" if each is None else show_seconds(each) for each in lengths)]


def shown(bound: float | None) -> str:
    return "-" if bound is None else f"{bound:g}"
