"""Command `failures`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import CliSession, Command, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time, since_option


@click.command(cls=Command)
@since_option("Start of the period: 12h, 7d, 2026-12-24.  [default: 7d]", default="7d")
@click.option("--user", metavar="NAME", help="Only jobs of this user.")
@pass_session
def failures(session: CliSession, since: str, user: str | None) -> None:
    """Show why jobs failed, by cause.

    \b
    Examples:
      schedulearn failures
      schedulearn failures --since 24h --user ada
    """
    found = session.client.failures(since=since, **({"user": user} if user else {}))
    if session.as_json:
        print_json(found)
        return
    print_table(
        session,
        ["JOBS", "CAUSE", "LAST", "NEWEST", "NEXT STEP"],
        [
            [
                str(group["count"]),
                group["cause"],
                show_time(group["newest"][0]["finished_at"]),
                group["newest"][0]["id"],
                group["step"] or "-",
            ]
            for group in found["items"]
        ],
    )
    if not found["complete"]:
        click.echo(f"These are the last {found['jobs']} failed jobs; give a later --since to see fewer.", err=True)
