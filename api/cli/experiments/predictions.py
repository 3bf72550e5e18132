"""predictions: how long jobs were predicted to take, and took."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Cell, Command, Session, pass_session, print_json, print_table
from schedulearn.api.client.client import Json


@click.command(cls=Command)
@click.option("--family", help="Only jobs of this family.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Of those shown.")
@pass_session
def predictions(session: Session, family: str | None, limit: int) -> None:
    """Shows how long jobs were predicted to take by their family, how long they took, and how often the intervals held.

    \b
    Examples:
      schedulearn predictions
      schedulearn predictions --family mnist --limit 100
    """
    found = session.client.predictions(family, limit=limit)
    if session.as_json:
        print_json(found)
        return
    headers = ("JOB", "PREDICTED", "INTERVAL", "BY JOBS", "TOOK", "HELD")
    print_table(session, headers, [_row(each) for each in found["items"]])
    click.echo(_summary(found))


def _row(each: Json) -> list[Cell]:
    took = each["actual"]
    held = "-" if took is None else "yes" if each["low"] <= took <= each["high"] else "no"
    return [
        each["job"], f"{each['gpu_seconds']:.4g} GPU-s", f"{each['low']:.4g} to {each['high']:.4g}",
        str(each["rests_on"]), "-" if took is None else f"{took:.4g} GPU-s", held,
    ]  # fmt: skip


def _summary(found: Json) -> str:
    if not found["compared"]:
        return "No job with a prediction has ended well yet."
    share = found["held"] / found["compared"]
    return (
        f"{found['held']} of {found['compared']} intervals held ({share:.0%}, {found['interval']:.0%} is the aim); "
        f"half of the predictions were off by a factor of at most {found['median_factor']:.2f}."
    )
