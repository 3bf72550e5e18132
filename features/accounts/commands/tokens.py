"""Command group `tokens`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time
from schedulearn.scheduler.core.people import Role

ROLES = click.Choice([role.value for role in Role])


@click.group(cls=Group)
def tokens() -> None:
    """Manage named tokens for people and programs.

    They complement the service's own token."""


@tokens.command("ls")
@pass_session
def list_tokens(session: CliSession) -> None:
    """List your tokens with their last use; admins see all.

    The tokens themselves are not stored.

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
@click.option("--user", metavar="NAME", help="Owner of the token. Only for admins.  [default: you]")
@click.option("--role", type=ROLES, help="Maximum role of the token.  [default: the owner's, at most user]")
@click.option(
    "--days",
    type=click.FloatRange(min=0, min_open=True),
    default=90,
    show_default=True,
    help="Days until it expires.",
)
@click.option("--no-expiry", is_flag=True, help="The token never expires.")
@pass_session
def add(session: CliSession, /, name: str, user: str | None, role: str | None, days: float, no_expiry: bool) -> None:
    """Create a token and print it.

    It is never shown again. It never has more rights than you. It is revoked together with the token that you use now.

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
def remove(session: CliSession, token: int) -> None:
    """Revoke a token by its ID, and all tokens made with it.

    `ls` shows the IDs. Open streams of the tokens end.

    \b
    Example:
      schedulearn tokens rm 3
    """
    session.client.revoke_token(token)
    if not session.as_json:
        click.echo(f"token {token} is revoked")
