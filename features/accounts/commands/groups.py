"""Command group `groups`."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import Parsed
from schedulearn.features.accounts.commands.quota import (
    BOUNDS,
    COLUMNS,
    bound_options,
    given,
    guarantee_shown,
    rest,
    shown,
    tell_bounds,
    use,
)
from schedulearn.scheduler.core.people import ANY


def parse_guarantee(text: str) -> tuple[str, int]:
    """Return GPU type and number of `8` or `a100=4`."""
    name, equals, number = text.rpartition("=")
    if not number.strip().isdecimal() or int(number) < 1 or (equals and not name.strip()):
        raise ValueError(f"invalid guarantee {text!r}: use a number of GPUs, or a type and a number, as a100=4")
    return name.strip() or ANY, int(number)


@click.group(cls=Group)
def groups() -> None:
    """Manage groups of users who share a quota.

    The quota of a group limits its users together. Each user's own quota also applies."""


@groups.command("ls")
@pass_session
def list_groups(session: CliSession) -> None:
    """List groups with their quotas and current use.

    \b
    Example:
      schedulearn groups ls
    """
    found = session.client.groups()
    if session.as_json:
        print_json(found)
        return
    rows = [
        [
            each["name"],
            *(use(each, name) for name in BOUNDS),
            shown(each["submissions"]),
            *rest(each),
            guarantee_shown(each),
            "-" if each["borrowed"] is None else str(each["borrowed"]),
            ", ".join(each["members"]),
        ]
        for each in found["items"]
    ]
    print_table(session, ("GROUP", *COLUMNS, "GUARANTEED", "BORROWED", "USERS"), rows)
    if found["problem"]:
        click.echo(f"warning: {clean(found['problem'])}", err=True)


@groups.command("set")
@click.argument("group")
@click.option(
    "--guarantee",
    "guarantees",
    type=Parsed(parse_guarantee),
    metavar="[TYPE=]GPUS",
    multiple=True,
    help="GPUs that the group gets back from others when it needs them. Repeatable, once for each GPU type.",
)
@bound_options
@pass_session
def set_group(
    session: CliSession, /, group: str, guarantees: tuple[tuple[str, int], ...], **bounds: float | None
) -> None:
    """Create a group, or change its quota and its guarantee.

    Options that you leave out mean no limit, and no guarantee.

    \b
    Examples:
      schedulearn groups set vision --gpus 16 --gpu-hours 2000
      schedulearn groups set vision --guarantee 8 --guarantee a100=4
    """
    made = session.client.set_group(group, given(bounds), guarantee=dict(guarantees))
    tell_bounds(session, group, made, bounds)
    if guarantees and not session.as_json:
        click.echo(f"guaranteed GPUs: {guarantee_shown(made)}")


@groups.command("add")
@click.argument("group")
@click.argument("users", nargs=-1, required=True)
@pass_session
def add(session: CliSession, group: str, users: tuple[str, ...]) -> None:
    """Add users to a group. They leave their previous group.

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
def drop(session: CliSession, group: str, users: tuple[str, ...]) -> None:
    """Remove users from a group.

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
def remove(session: CliSession, group: str) -> None:
    """Delete a group. Its users are then in no group.

    \b
    Example:
      schedulearn groups rm vision
    """
    session.client.remove_group(group)
    if not session.as_json:
        click.echo(f"{clean(group)} is removed")
