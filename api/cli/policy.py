"""Command group `policy`."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import click

from schedulearn.api.cli.common import Cell, CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_seconds, show_time
from schedulearn.api.client.client import Json


@click.group(cls=Group)
def policy() -> None:
    """Show and change the scheduling policy."""


@policy.command("get")
@pass_session
def get_policy(session: CliSession) -> None:
    """Show the policy in force, and all available policies.

    Metrics and parameters of each are included.

    \b
    Example:
      schedulearn policy get
    """
    _print(session, session.client.policy())


@policy.command("set")
@click.argument("algorithm")
@click.option("--metric", default="default", show_default=True, help="Objective of the policy.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="KEY=VALUE",
    help="Parameter, as JSON if valid, else as text. Repeatable.",
)
@pass_session
def set_policy(session: CliSession, algorithm: str, metric: str, params: tuple[str, ...]) -> None:
    """Change the policy, from the next decision on.

    Running jobs continue. The choice survives restarts.

    \b
    Examples:
      schedulearn policy set fifo
      schedulearn policy set goodput --metric speed
      schedulearn policy set round-robin --param jobs_per_gpu=2
    """
    _print(session, session.client.set_policy(algorithm, metric, dict(_pair(param) for param in params)), short=True)


@policy.command("history")
@pass_session
def history(session: CliSession) -> None:
    """List past policies with their start times, oldest first.

    \b
    Example:
      schedulearn policy history
    """
    found = session.client.policy_history()
    if session.as_json:
        print_json(found)
        return
    rows = [[show_time(each["at"]), each["algorithm"], each["metric"], json.dumps(each["params"])] for each in found]
    print_table(session, ("SINCE", "ALGORITHM", "METRIC", "PARAMETERS"), rows)


_FIGURES = ("MEAN COMPLETION", "MEDIAN WAIT", "P90 WAIT", "GPU-HOURS", "HOST-HOURS", "END BY THEN", "MOVED NOW")
_HOURS = click.option("--hours", type=click.IntRange(1, 168), default=24, show_default=True, help="Hours to simulate.")


@policy.command("preview")
@click.argument("algorithm")
@click.option("--metric", default="default", show_default=True, help="Objective of the policy.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="KEY=VALUE",
    help="Parameter, as JSON if valid, else as text. Repeatable.",
)
@_HOURS
@pass_session
def preview(session: CliSession, algorithm: str, metric: str, params: tuple[str, ...], hours: int) -> None:
    """Simulate another policy and show the changes.

    It shows changes at once, and within the next hours. Nothing is changed. Unknown run times of jobs are estimated.

    \b
    Example:
      schedulearn policy preview goodput --metric speed
    """
    found = session.client.preview(algorithm, metric, dict(_pair(param) for param in params), hours)
    if session.as_json:
        print_json(found)
        return
    rows: list[list[Cell]] = [
        [change["job"], change["name"], change["action"], _gpus(change["before"]), _gpus(change["after"]),
         change["reason"]]
        for change in found["changes"]
    ]  # fmt: skip
    if rows:
        print_table(session, ("ID", "NAME", "AT ONCE", "NOW", "THEN", "WHY"), rows)
    click.echo(f"{found['unchanged']} jobs would not change.")
    print_table(
        session,
        ("", *_FIGURES),
        [["now", *_totals(found["now"])], ["then", *_totals(found["then"])]],
    )


@policy.command("compare")
@_HOURS
@pass_session
def compare(session: CliSession, hours: int) -> None:
    """Simulate all policies with the current jobs and compare them.

    The policy in force comes first. The others have their default parameters. Nothing is changed.

    \b
    Example:
      schedulearn policy compare --hours 6
    """
    found = session.client.compare_policies(hours)
    if session.as_json:
        print_json(found)
        return
    rows: list[list[Cell]] = [
        [each["algorithm"], each["metric"], "yes" if each["in_force"] else "",
         *(_totals(each["totals"]) if each["totals"] else [each["problem"]])]
        for each in found["policies"]
    ]  # fmt: skip
    print_table(session, ("ALGORITHM", "METRIC", "IN FORCE", *_FIGURES), rows)
    if out := found["left_out"]:
        click.echo(f"{out} of {found['jobs']} jobs can't run here under any policy, and are left out of the figures.")


def _gpus(allocation: Json) -> str:
    return ", ".join(f"{gpus} on {host}" for host, gpus in sorted(allocation.items())) or "-"


def _totals(totals: Json) -> list[Cell]:
    if totals["mean_completion"] is None:
        why = {"time": "it takes too long to compute", "events": "too many events"}
        return [why.get(totals["cut"], "-"), *["-"] * (len(_FIGURES) - 1)]
    return [
        show_seconds(totals["mean_completion"]),
        show_seconds(totals["median_wait"]),
        show_seconds(totals["p90_wait"]),
        f"{totals['gpu_hours']:.1f}",
        f"{totals['host_hours']:.1f}",
        str(totals["ended"]),
        str(totals["changes"]),
    ]


def _pair(given: str) -> tuple[str, Any]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{clean(given)!r} is not KEY=VALUE", param_hint="--param")
    try:
        return key, json.loads(value, parse_constant=_refuse)
    except ValueError:
        return key, value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _print(session: CliSession, view: Json, *, short: bool = False) -> None:
    if session.as_json:
        print_json(view)
        return
    params = "".join(f", {key}={json.dumps(value)}" for key, value in view["params"].items())
    since = f" since {show_time(view['since'])}" if view["since"] else ""
    click.echo(clean(f"{view['algorithm']}, metric {view['metric']}{params}{since}"))
    if view["problem"]:
        click.secho(f"It does not decide now: {clean(view['problem'])}", fg="red", err=True)
    if short:
        return
    click.echo()
    rows: list[list[Cell]] = []
    for kind in view["available"]:
        known = ", ".join(f"{name}={json.dumps(p['default'])}" for name, p in kind["parameters"].items())
        name: Cell = (kind["name"], "bold green") if kind["name"] == view["algorithm"] else kind["name"]
        rows.append(
            [name, ",".join(kind["metrics"]), known or "-", kind["description"].split("\n\n")[0].replace("\n", " ")]
        )
    print_table(session, ("POLICY", "METRICS", "PARAMETERS", "WHAT IT DOES"), rows)
