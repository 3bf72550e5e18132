"""tokens ls, add and rm."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Group, Session, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time


@click.group(cls=Group)
def tokens() -> None:
    """Named tokens, one for each person or program, beside the service's own."""


@tokens.command("ls")
@pass_session
def list_tokens(session: Session) -> None:
    """Lists tokens by name, with when each was used last. The tokens themselves are not kept.

    \b
    Example:
      schedulearn tokens ls
    """
    found = session.client.tokens()
    if session.as_json:
        print_json(found)
        return
    rows = [
        [str(each["id"]), each["name"], show_time(each["created_at"]), show_time(each["last_used_at"])]
        for each in found["items"]
    ]
    print_table(session, ("ID", "NAME", "CREATED", "LAST-USED"), rows)
    if not found["required"]:
        click.echo("This service listens on loopback only and asks for none.", err=True)


@tokens.command("add")
@click.argument("name")
@pass_session
def add(session: Session, name: str) -> None:
    """Makes a token and prints it, this once. It may do whatever the service's own may.

    \b
    Example:
      schedulearn tokens add "ada's laptop"
    """
    made = session.client.add_token(name)
    if session.as_json:
        print_json(made)
        return
    click.echo(made["token"])
    click.echo(f"This is token {made['id']}, {clean(made['name'])}. Keep it now: it is not shown again.", err=True)


@tokens.command("rm")
@click.argument("token", type=int)
@pass_session
def remove(session: Session, token: int) -> None:
    """Revokes a token, given by the ID that `ls` shows. Its open streams end.

    \b
    Example:
      schedulearn tokens rm 3
    """
    session.client.revoke_token(token)
    if not session.as_json:
        click.echo(f"token {token} is revoked")
