"""Commands `whoami` and `users`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import click

from schedulearn.api.cli.common import CliSession, Command, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time
from schedulearn.features.accounts.commands.quota import share_row, used_lines
from schedulearn.features.accounts.commands.tokens import ROLES

UID = click.option("--uid", type=int, metavar="UID", help="User ID of the jobs on hosts; requires --gid.")
GID = click.option("--gid", type=int, metavar="GID", help="Group ID of the jobs on hosts.")
GROUPS = click.option(
    "--group", "groups", type=int, metavar="GID", multiple=True, help="Additional group ID. Repeatable."
)


@click.command(cls=Command)
@pass_session
def whoami(session: CliSession) -> None:
    """Show your user name and role at the service.

    \b
    Example:
      schedulearn whoami
    """
    me = session.client.whoami()
    if session.as_json:
        print_json(me)
        return
    until = f", until {show_time(me['expires_at'])}" if me["expires_at"] else ""
    click.echo(f"{clean(me['name'])} ({me['role']}{until})")
    if me["quota"]:
        for line in used_lines(me["quota"]):
            click.echo(line)
    if group := me["group"]:
        click.echo(f"in the group {clean(group['name'])}")
        for line in used_lines(group):
            click.echo(line)
        if group["borrowed"] is not None:
            held, guaranteed, borrowed = share_row(group)
            click.echo(f"  GPUs held: {held}, guaranteed: {guaranteed}, borrowed: {borrowed}")


@click.group(cls=Group)
def users() -> None:
    """Manage users: people and programs with a role.

    Admins do everything. Users submit jobs and change their own. Viewers only read."""


@users.command("ls")
@pass_session
def list_users(session: CliSession) -> None:
    """List users.

    The account that runs the service is an admin, and is not listed.

    \b
    Example:
      schedulearn users ls
    """
    found = session.client.users()
    if session.as_json:
        print_json(found)
        return
    rows = [
        [each["name"], each["role"], _ids_of(each) or "-", _sign_in_of(each), show_time(each["created_at"])]
        for each in found["items"]
    ]
    print_table(session, ("NAME", "ROLE", "WRITES AS", "SIGN-IN", "CREATED"), rows)


@users.command("add")
@click.argument("name")
@click.option("--role", type=ROLES, default="user", show_default=True, help="What they may do.")
@UID
@GID
@GROUPS
@pass_session
def add(session: CliSession, name: str, role: str, uid: int | None, gid: int | None, groups: Sequence[int]) -> None:
    """Add a user.

    Then create a token: `schedulearn tokens add "ada's laptop" --user ada`.

    \b
    Examples:
      schedulearn users add ada
      schedulearn users add ada --uid 1001 --gid 1001 --group 200
      schedulearn users add wall-screen --role viewer
    """
    made = session.client.add_user(name, role, uid=uid, gid=gid, gids=groups)
    if session.as_json:
        print_json(made)
        return
    ids = _ids_of(made)
    click.echo(f"{clean(made['name'])} is {made['role']}" + (f", and writes on the hosts as {ids}" if ids else ""))


@users.command("role")
@click.argument("name")
@click.argument("role", type=ROLES)
@pass_session
def set_role(session: CliSession, name: str, role: str) -> None:
    """Change the role of a user.

    The change takes effect at once for all of the user's tokens.

    \b
    Example:
      schedulearn users role ada admin
    """
    made = session.client.set_role(name, role)
    if session.as_json:
        print_json(made)
        return
    click.echo(f"{clean(made['name'])} is {made['role']}")


@users.command("ids")
@click.argument("name")
@UID
@GID
@GROUPS
@click.option("--none", is_flag=True, help="The user's jobs write no folders of hosts.")
@pass_session
def set_ids(
    session: CliSession, name: str, uid: int | None, gid: int | None, groups: Sequence[int], none: bool
) -> None:
    """Set the uid and gids with which a user's jobs write on hosts.

    `id ada` on a host shows the numbers.

    \b
    Examples:
      schedulearn users ids ada --uid 1001 --gid 1001 --group 200 --group 27
      schedulearn users ids ada --none
    """
    if none == (uid is not None and gid is not None) or (none and groups):
        raise click.UsageError("give --uid and --gid, and --group for each further group; or --none")
    made = session.client.set_ids(name, uid, gid, groups)
    if session.as_json:
        print_json(made)
        return
    ids = _ids_of(made)
    click.echo(f"{clean(made['name'])} writes on the hosts as {ids}" if ids else f"{clean(made['name'])} has no uid")


@users.command("disable")
@click.argument("name")
@pass_session
def disable(session: CliSession, name: str) -> None:
    """Disable a user: no token, session or sign-in works.

    Jobs go on. Tokens stay, and work again after `enable`.

    \b
    Example:
      schedulearn users disable ada
    """
    _show_change(session, session.client.set_disabled(name, True), "is disabled")


@users.command("enable")
@click.argument("name")
@pass_session
def enable(session: CliSession, name: str) -> None:
    """Enable a user who was disabled.

    \b
    Example:
      schedulearn users enable ada
    """
    _show_change(session, session.client.set_disabled(name, False), "is enabled")


@users.command("link")
@click.argument("name")
@click.option("--issuer", required=True, help="URL of the identity provider; `proxy`: a trusted proxy.")
@click.option("--subject", required=True, help="The person's `sub` there; the page of a refused sign-in shows it.")
@pass_session
def link(session: CliSession, name: str, issuer: str, subject: str) -> None:
    """Let a person at an identity provider sign in as a user.

    The rules of sign-in then decide the user's role.

    \b
    Example:
      schedulearn users link ada --issuer https://id.lab.org/realms/lab --subject 7d3c
    """
    _show_change(session, session.client.link_user(name, issuer, subject), f"signs in by {clean(issuer)}")


@users.command("unlink")
@click.argument("name")
@pass_session
def unlink(session: CliSession, name: str) -> None:
    """Let nobody sign in as a user by a provider. Tokens stay.

    \b
    Example:
      schedulearn users unlink ada
    """
    session.client.unlink_user(name)
    if not session.as_json:
        click.echo(f"{clean(name)} no longer signs in by a provider")


def _show_change(session: CliSession, made: Mapping[str, Any], what: str) -> None:
    if session.as_json:
        print_json(made)
        return
    click.echo(f"{clean(made['name'])} {what}")


def _sign_in_of(user: Mapping[str, Any]) -> str:
    if user["disabled_by"]:
        return f"disabled by {user['disabled_by']}"
    hosts = [urlsplit(each["issuer"]).netloc or each["issuer"] for each in user["identities"]]
    return ", ".join(dict.fromkeys(hosts)) or "token"


def _ids_of(user: Mapping[str, Any]) -> str:
    """Return the IDs with which a user's jobs write on the hosts; empty: they don't write."""
    if user["uid"] is None:
        return ""
    return ":".join([str(user["uid"]), ",".join(map(str, (user["gid"], *user["gids"])))])


@users.command("rm")
@click.argument("name")
@click.option("--jobs", type=click.Choice(["cancel", "keep"]), help="Treatment of unfinished jobs and sweeps.")
@click.option(
    "--secrets", type=click.Choice(["remove", "keep"]), help="Treatment of secrets; kept ones serve jobs that continue."
)
@click.option("--data", type=click.Choice(["remove", "keep"]), help="Treatment of data sets and models.")
@pass_session
def remove(session: CliSession, name: str, jobs: str | None, secrets: str | None, data: str | None) -> None:
    """Remove a user with all tokens and sessions.

    A new user of the same name gets none of the old user's objects.

    \b
    Examples:
      schedulearn users rm ada
      schedulearn users rm ada --jobs cancel --secrets remove --data keep
    """
    if sys.stdin.isatty() and not session.as_json:
        jobs = jobs or click.prompt("Their jobs that have not ended", type=click.Choice(["cancel", "keep"]))
        secrets = secrets or click.prompt("Their secrets", type=click.Choice(["remove", "keep"]))
        data = data or click.prompt("Their data sets and models", type=click.Choice(["remove", "keep"]))
    session.client.remove_user(name, jobs=jobs, secrets=secrets, data=data)
    if not session.as_json:
        click.echo(f"{clean(name)} is removed, and all tokens of {clean(name)}")
