"""Command group `registry`."""

from __future__ import annotations

import sys
from typing import Any

import click

from schedulearn.api.cli.common import CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time

_of_group = click.option("--group", metavar="GROUP", help="Login of a group. Only for admins.")
_shared = click.option("--shared", is_flag=True, help="Login for the jobs of all users. Only for admins.")


@click.group(cls=Group)
def registry() -> None:
    """Manage logins to registries of images, which hosts pull with.

    A job's image is pulled with its user's own login, else their group's, else everybody's. Passwords are stored
    encrypted and never shown."""


@registry.command("login")
@click.argument("host")
@click.option("--username", "-u", required=True, help="Name of the account at the registry.")
@_of_group
@_shared
@pass_session
def log_in(session: CliSession, /, host: str, username: str, group: str | None, shared: bool) -> None:
    """Log in to a registry, so that hosts pull its images for your jobs.

    It asks for the password. In a pipe, it reads the password from stdin, without the last line end. The registry is
    asked first: a login that it refuses is not stored.

    \b
    Examples:
      schedulearn registry login registry.lab:5000 --username ada
      schedulearn registry login registry.lab --username ada < ~/.registry-token
      schedulearn registry login docker.io --username robot --shared
    """
    password = (
        click.prompt("Password", hide_input=True, err=True)
        if sys.stdin.isatty()
        else sys.stdin.read().removesuffix("\n")
    )
    made = session.client.set_registry_login(_named(host), username, password, group=group, shared=shared)
    if session.as_json:
        print_json(made)
        return
    click.echo(f"logged in to {clean(made['registry'])} for {_whose(made)}: {clean(made['message'])}")


@registry.command("ls")
@pass_session
def list_logins(session: CliSession) -> None:
    """List the registry logins that your jobs may use.

    Admins see all of them.

    \b
    Example:
      schedulearn registry ls
    """
    found = session.client.registry_logins()
    if session.as_json:
        print_json(found)
        return
    rows = [
        [each["registry"], _whose(each), clean(each["username"]), show_time(each["changed_at"])]
        for each in found["items"]
    ]
    print_table(session, ("REGISTRY", "FOR", "USERNAME", "CHANGED"), rows)


@registry.command("logout")
@click.argument("host")
@_of_group
@_shared
@pass_session
def log_out(session: CliSession, /, host: str, group: str | None, shared: bool) -> None:
    """Remove a login to a registry. Images that were pulled with it need another login from now on.

    \b
    Example:
      schedulearn registry logout registry.lab:5000
    """
    session.client.remove_registry_login(_named(host), group=group, shared=shared)
    if not session.as_json:
        click.echo(f"logged out of {clean(host)}")


def _named(host: str) -> str:
    """Return the registry's host: `docker login` also takes URLs."""
    return host.removeprefix("https://").removeprefix("http://").partition("/")[0]


def _whose(login: dict[str, Any]) -> str:
    return clean(login["user"]) or (f"group {clean(login['group'])}" if login["group"] else "everybody")
