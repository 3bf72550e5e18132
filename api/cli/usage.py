"""usage: who used how much."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Session, pass_session, print_json, print_table
from schedulearn.api.cli.times import ago


@click.command()
@click.option("--since", default="30d", metavar="TIME", help="How far back: 12h, 7d.  [default: 30d]")
@click.option("--by", multiple=True, type=click.Choice(["day", "user", "label"]), help="Repeatable.  [default: user]")
@click.option("--label", default="", metavar="NAME", help="The label to group by.")
@click.option("--price", type=click.FloatRange(0), default=0.0, metavar="NUMBER", help="Of one GPU-hour.")
@click.option("--csv", "as_csv", is_flag=True, help="As CSV.")
@pass_session
def usage(session: Session, since: str, by: tuple[str, ...], label: str, price: float, as_csv: bool) -> None:
    """Shows GPU-hours, energy and cost.

    \b
    Examples:
      schedulearn usage
      schedulearn usage --since 7d --by day --by user
      schedulearn usage --by label --label project --price 1.20 --csv
    """
    given = {"since": ago("--since", since), "by": list(by), "label": label, "gpu_hour_price": price}
    if as_csv:
        click.echo(session.client.usage_csv(**given), nl=False)
        return
    rows = session.client.usage(**given)
    if session.as_json:
        print_json(rows)
        return
    names = [name for name in ("day", "user", "label") if name in (by or ("user",))]
    columns = [*names, "jobs", "gpu_hours", "energy_kwh", *(["cost"] if price else [])]
    print_table(
        session,
        [name.upper().replace("_", "-") for name in columns],
        [
            [f"{row[name]:.2f}" if isinstance(row[name], float) else str(row[name] or "-") for name in columns]
            for row in rows
        ],
    )
