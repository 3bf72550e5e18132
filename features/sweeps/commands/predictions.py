"""Commands `predictions`, and `predictions families`, `versions`, `pin` and `unpin`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Cell, CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.client.client import Json


@click.group(cls=Group, invoke_without_command=True)
@click.option("--family", help="Only jobs of this family.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Maximum number of predictions shown."
)
@click.option(
    "--window", type=click.IntRange(1, 10_000), help="Number of newest predictions to evaluate.  [default: all]"
)
@pass_session
@click.pass_context
def predictions(
    context: click.Context, session: CliSession, family: str | None, limit: int, window: int | None
) -> None:
    """Compare predicted with actual run times and metrics.

    It also shows how often the prediction intervals held.

    \b
    Examples:
      schedulearn predictions
      schedulearn predictions --family mnist --limit 100
      schedulearn predictions families
      schedulearn predictions versions mnist
      schedulearn predictions pin mnist 1
    """
    if context.invoked_subcommand is not None:
        return
    found = session.client.predictions(family, limit=limit, window=window)
    if session.as_json:
        print_json(found)
        return
    headers = ("JOB", "PREDICTED", "INTERVAL", "BY JOBS", "TOOK", "HELD")
    print_table(session, headers, [_row(each) for each in found["items"]])
    click.echo(_summary(found))
    if found["metrics"]["items"]:
        of_metrics = ("JOB", "METRIC", "PREDICTED", "INTERVAL", "MODEL", "BY JOBS", "REACHED", "HELD")
        click.echo()
        print_table(session, of_metrics, [_metric_row(each) for each in found["metrics"]["items"]])
        click.echo(_metric_summary(found["metrics"], found["interval"]))


@predictions.command()
@click.option(
    "--window",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="Number of newest predictions per family.",
)
@pass_session
def families(session: CliSession, window: int) -> None:
    """Show the recent prediction errors of each family.

    \b
    Example:
      schedulearn predictions families --window 20
    """
    found = session.client.calibrations(window=window)
    if session.as_json:
        print_json(found)
        return
    headers = ("FAMILY", "JOBS", "HELD", "MEAN ERROR", "MEDIAN FACTOR", "VERSION")
    print_table(session, headers, [_of_family(each) for each in found["items"]])
    if found["metrics"]:
        click.echo()
        of_metrics = ("FAMILY", "METRIC", "JOBS", "HELD", "MEAN ERROR")
        print_table(session, of_metrics, [_of_metric(each) for each in found["metrics"]])


@predictions.command()
@click.argument("family")
@pass_session
def versions(session: CliSession, family: str) -> None:
    """Show the versions of a family's models.

    Each version lists the jobs that its predictions and advice are based on.

    \b
    Example:
      schedulearn predictions versions mnist
    """
    _show_versions(session, session.client.model_versions(family))


@predictions.command()
@click.argument("family")
@click.argument("version", type=click.IntRange(1))
@pass_session
def pin(session: CliSession, family: str, version: int) -> None:
    """Pin a version of a family's models.

    No new version is made until `unpin`.

    \b
    Example:
      schedulearn predictions pin mnist 1
    """
    _show_versions(session, session.client.use_model_version(family, version))


@predictions.command()
@click.argument("family")
@pass_session
def unpin(session: CliSession, family: str) -> None:
    """Use the newest version of a family's models again.

    \b
    Example:
      schedulearn predictions unpin mnist
    """
    _show_versions(session, session.client.use_model_version(family, None))


def _show_versions(session: CliSession, found: Json) -> None:
    if session.as_json:
        print_json(found)
        return
    if not found["items"]:
        click.echo(f"All ended jobs of {clean(found['family'])} count: its predictions have not become worse.")
        return
    headers = ("VERSION", "JOBS ENDED", "THERE", "IN USE", "WHY")
    print_table(session, headers, [_version(each) for each in found["items"]])


def _version(each: Json) -> list[Cell]:
    used = "pinned" if each["pinned"] else "yes" if each["in_use"] else "no"
    time = f"{each['since'] or 'from the first'} to {each['until'] or 'now'}"
    return [str(each["number"]), time, str(each["jobs"]), used, each["why"]]


def _of_family(each: Json) -> list[Cell]:
    pinned = ", pinned" if each["pinned"] else ""
    return [
        each["family"], str(each["compared"]), f"{each['held'] / each['compared']:.0%}", f"{each['mean_error']:.0%}",
        f"{each['median_factor']:.2f}", f"{each['version']}{pinned}",
    ]  # fmt: skip


def _of_metric(each: Json) -> list[Cell]:
    share = f"{each['held'] / each['compared']:.0%}"
    return [each["family"], each["metric"], str(each["compared"]), share, f"{each['mean_error']:.4g}"]


def _row(each: Json) -> list[Cell]:
    took = each["actual"]
    return [
        each["job"], f"{each['gpu_seconds']:.4g} GPU-s", f"{each['low']:.4g} to {each['high']:.4g}",
        str(each["rests_on"]), "-" if took is None else f"{took:.4g} GPU-s", _held(each),
    ]  # fmt: skip


def _metric_row(each: Json) -> list[Cell]:
    reached = each["actual"]
    return [
        each["job"], each["metric"], f"{each['value']:.4g}", f"{each['low']:.4g} to {each['high']:.4g}", each["model"],
        str(each["rests_on"]), "-" if reached is None else f"{reached:.4g}", _held(each),
    ]  # fmt: skip


def _held(each: Json) -> str:
    actual = each["actual"]
    return "-" if actual is None else "yes" if each["low"] <= actual <= each["high"] else "no"


def _summary(found: Json) -> str:
    if not found["compared"]:
        return "No job with a prediction has ended well yet."
    share = found["held"] / found["compared"]
    return (
        f"{found['held']} of {found['compared']} intervals held ({share:.0%}, {found['interval']:.0%} is the aim); "
        f"half of the predictions were off by a factor of at most {found['median_factor']:.2f}, "
        f"the mean error is {found['mean_error']:.0%}."
    )


def _metric_summary(found: Json, aim: float) -> str:
    if not found["compared"]:
        return "No job whose metrics were predicted has ended well yet."
    share = found["held"] / found["compared"]
    return f"{found['held']} of {found['compared']} intervals of metrics held ({share:.0%}, {aim:.0%} is the aim)."
