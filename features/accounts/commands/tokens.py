"""Command group `tokens`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Group, Session, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time
from schedulearn.scheduler.core.people import Role

ROLES = click.Choice([role.value for role in Role])


@click.group(cls=Group)
def tokens() -> None:
    """Named tokens, one for each person or program, beside the service's own."""


@tokens.command("ls")
@pass_session
def list_tokens(session: Session) -> None:
    """Lists your tokens, for an admin all, with when each was used last. The tokens themselves are not kept.

    \b
    Example:
      schedulearn tokens ls
    """
    found = session.client.tokens()
    if session.as_json:
        print_json(found)
        return
    rows = [
        [
            str(each["id"]),
            each["name"],
            each["owner"],
            each["role"],
            *(show_time(each[at]) for at in ("created_at", "expires_at", "last_used_at")),
        ]
        for each in found["items"]
    ]
    print_table(session, ("ID", "NAME", "OWNER", "ROLE", "CREATED", "EXPIRES", "LAST-USED"), rows)
    if not found["required"]:
        click.echo("On this machine, the account that runs the service needs none.", err=True)


@tokens.command("add")
@click.argument("name")
@click.option("--user", metavar="NAME", help="Whose it is to be, for admins.  [default: yours]")
@click.option("--role", type=ROLES, help="What it may do at most.  [default: as its owner, user at most]")
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    default=90,
    show_default=True,
    help="How long it is good for.",
)
@click.option("--no-expiry", is_flag=True, help="It is good until it is revoked.")
@pass_session
def add(session: Session, /, name: str, user: str | None, role: str | None, days: float, no_expiry: bool) -> None:
    """Makes a token and prints it, this once. It may do no more than you, and is revoked with the token that you use.

    \b
    Examples:
      schedulearn tokens add "ada's laptop" --user ada
      schedulearn tokens add dashboard --role viewer --no-expiry
    """
    made = session.client.add_token(name, user, role, None if no_expiry else days)
    if session.as_json:
        print_json(made)
        return
    click.echo(made["token"])
    what = f"token {made['id']}, {clean(made['name'])}, of {clean(made['owner'])} as {made['role']}"
    until = f", until {show_time(made['expires_at'])}" if made["expires_at"] else ""
    click.echo(f"This is {what}{until}. Keep it now: it is not shown again.", err=True)


@tokens.command("rm")
@click.argument("token", type=int)
@pass_session
def remove(session: Session, token: int) -> None:
    """Revokes a token, given by the ID that `ls` shows, and those made with it. Their open streams end.

    \b
    Example:
      schedulearn tokens rm 3
    """
    session.client.revoke_token(token)
    if not session.as_json:
        click.echo(f"token {token} is revoked")
