"""Command group `groups`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Group, Session, clean, pass_session, print_json, print_table
from schedulearn.features.accounts.commands.quota import BOUNDS, COLUMNS, bound_options, given, shown, tell_bounds, use


@click.group(cls=Group)
def groups() -> None:
    """Users who share a quota: it bounds them together, and each one's own holds as well."""


@groups.command("ls")
@pass_session
def list_groups(session: Session) -> None:
    """Lists groups, with what the users of each have together.

    \b
    Example:
      schedulearn groups ls
    """
    found = session.client.groups()
    if session.as_json:
        print_json(found)
        return
    rows = [
        [each["name"], *(use(each, name) for name in BOUNDS), shown(each["submissions"]), ", ".join(each["members"])]
        for each in found["items"]
    ]
    print_table(session, ("GROUP", *COLUMNS, "USERS"), rows)


@groups.command("set")
@click.argument("group")
@bound_options
@pass_session
def set_group(session: Session, /, group: str, **bounds: float | None) -> None:
    """Makes a group, or changes what its users may have together. What you leave out has no bound.

    \b
    Example:
      schedulearn groups set vision --gpus 16 --gpu-hours 2000
    """
    tell_bounds(session, group, session.client.set_group(group, given(bounds)), bounds)


@groups.command("add")
@click.argument("group")
@click.argument("users", nargs=-1, required=True)
@pass_session
def add(session: Session, group: str, users: tuple[str, ...]) -> None:
    """Puts users into a group. They leave the one that they were in.

    \b
    Example:
      schedulearn groups add vision ada ben
    """
    for user in users:
        made = session.client.add_member(group, user)
    if session.as_json:
        print_json(made)
        return
    click.echo(f"{clean(group)}: {clean(', '.join(made['members']))}")


@groups.command("drop")
@click.argument("group")
@click.argument("users", nargs=-1, required=True)
@pass_session
def drop(session: Session, group: str, users: tuple[str, ...]) -> None:
    """Takes users out of a group.

    \b
    Example:
      schedulearn groups drop vision ben
    """
    for user in users:
        session.client.remove_member(group, user)
        if not session.as_json:
            click.echo(f"{clean(user)} is not in {clean(group)} any more")


@groups.command("rm")
@click.argument("group")
@pass_session
def remove(session: Session, group: str) -> None:
    """Removes a group. Its users are in none then.

    \b
    Example:
      schedulearn groups rm vision
    """
    session.client.remove_group(group)
    if not session.as_json:
        click.echo(f"{clean(group)} is removed")
