"""Command `usage`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import CliSession, Command, pass_session, print_json, print_table
from schedulearn.api.cli.times import since_option
from schedulearn.api.client.client import Json


@click.command(cls=Command)
@since_option("Start of the period: 12h, 7d, 2026-12-24.  [default: 30d]", default="30d")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(["day", "user", "label"]),
    help="Group by this. Repeatable.  [default: user]",
)
@click.option("--label", default="", metavar="NAME", help="Label to group by.")
@click.option(
    "--price",
    type=click.FloatRange(0),
    metavar="NUMBER",
    help="Price of one GPU-hour.  [default: the service's gpu_prices]",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--capacity", is_flag=True, help="GPU-hours per day: available, used by jobs, and idle.")
@pass_session
def usage(
    session: CliSession, since: str, by: tuple[str, ...], label: str, price: float | None, as_csv: bool, capacity: bool
) -> None:
    """Show GPU-hours, energy and cost.

    \b
    Examples:
      schedulearn usage
      schedulearn usage --since 7d --by day --by user
      schedulearn usage --by label --label project --price 1.20 --csv
      schedulearn usage --capacity --since 7d
    """
    if capacity:
        if by or label or price is not None or as_csv:
            raise click.UsageError("--capacity works only with --since")
        _show_capacity(session, since)
        return
    given: dict[str, object] = {"since": since, "by": list(by), "label": label}
    if price is not None:
        given["gpu_hour_price"] = price
    if as_csv:
        click.echo(session.client.usage_csv(**given), nl=False)
        return
    rows = session.client.usage(**given)
    if session.as_json:
        print_json(rows)
        return
    names = [name for name in ("day", "user", "label") if name in (by or ("user",))]
    priced = any(row["cost"] is not None for row in rows)
    columns = [*names, "jobs", "gpu_hours", "energy_kwh", *(["cost"] if priced else [])]
    if any(row["deadlines"] for row in rows):
        columns.append("deadlines_met")
    print_table(
        session,
        [name.upper().replace("_", "-") for name in columns],
        [[_cell(row, name) for name in columns] for row in rows],
    )


def _cell(row: Json, name: str) -> str:
    value = row[name]
    if name == "deadlines_met":
        return f"{value} of {row['deadlines']}" if row["deadlines"] else "-"
    if not isinstance(value, float):
        return str(value or "-")
    return f"{value:.2f} {row['currency']}".strip() if name == "cost" else f"{value:.2f}"


def _show_capacity(session: CliSession, since: str) -> None:
    found = session.client.usage_capacity(since=since)
    if session.as_json:
        print_json(found)
        return
    rows = []
    for day in found["days"]:
        there, held = day["gpu_hours"], day["held_gpu_hours"]
        share = f"{held / there:.0%}" if there else "-"
        rows.append([day["day"], f"{there:.2f}", f"{held:.2f}", f"{max(0.0, there - held):.2f}", share])
    print_table(session, ["DAY", "GPU-HOURS", "HELD", "IDLE", "SHARE"], rows)
