"""Commands `login`, `logout` and `contexts`."""

from __future__ import annotations

import os
import socket
import sys
import time
from urllib.parse import quote

import click

from schedulearn.api.cli.common import CliSession, Command, Group, clean, pass_session, print_json, print_table, whoami
from schedulearn.api.cli.times import show_time
from schedulearn.api.client import contexts as store
from schedulearn.api.client.errors import ApiError, ClientError, UnreachableError
from schedulearn.api.client.transport import Json, base_url
from schedulearn.api.client.trust import fingerprint_at, is_distrust, lasting
from schedulearn.features.accounts.commands.tokens import ROLES

_SHORTEST_S, _LONGEST_S = 0.05, 10.0
"""Bounds of the time between two questions, whatever the service says."""


@click.command(cls=Command)
@click.argument("address", metavar="[URL]", required=False)
@click.option("--name", metavar="NAME", help="Name of the context.  [default: the host's]")
@click.option("--role", type=ROLES, help="Maximum role of the token.  [default: yours, at most user]")
@click.option("--no-browser", is_flag=True, help="Print the address of the page only.")
@pass_session
def login(session: CliSession, address: str | None, name: str | None, role: str | None, no_browser: bool) -> None:
    """Log in to a service and use it from now on.

    It opens the service's page, where a signed-in user approves the login. Compare the code there with the one shown
    here. The token that this machine gets is stored in a file that only you can read.

    \b
    Examples:
      schedulearn login http://gpu1:8000
      schedulearn login https://gpu1:8000 --name lab --role viewer
    """
    session.url = base_url(address) if address else session.url
    session.token = ""  # a token of another service is not for this one
    asked = _ask(session, role)
    url = session.client.url
    page = f"{url}/ui/login?code={quote(str(asked['code']))}"
    click.echo(f"Approve this login on the page, if it shows the code {clean(str(asked['code']))}:", err=True)
    click.echo(f"  {clean(page)}", err=True)
    if not no_browser and _has_browser():
        click.launch(page)
    made = _wait(session, asked)
    ca = lasting(session.ca) if url.startswith("https:") else None
    store.store_context(store.Context(name or store.free_name(url), url, made["token"], ca))
    chosen = store.current_name()
    if session.as_json:
        print_json({"url": url, "user": made["owner"], "role": made["role"], "expires_at": made["expires_at"]})
        return
    until = f", until {show_time(made['expires_at'])}" if made["expires_at"] else ""
    click.echo(f"Logged in at {clean(url)} as {clean(made['owner'])} ({made['role']}){until}.")
    if chosen is None:
        click.echo("SCHEDULEARN_URL or SCHEDULEARN_TOKEN is set, and goes before this login: unset both.", err=True)


def _ask(session: CliSession, role: str | None) -> Json:
    """Ask the service for a login. An unknown certificate is shown, and trusted if the user says so."""
    host, account = socket.gethostname()[:60], whoami()[:60]
    try:
        return session.client.ask_login(host, account, role)
    except UnreachableError as error:
        if session.ca or not is_distrust(error):
            raise
        found = fingerprint_at(session.client.url)
        if not sys.stdin.isatty():
            raise ClientError(f"{error}. Its fingerprint is {found}: compare it, then add --ca {found}") from error
    click.echo(f"No authority vouches for the certificate of {clean(session.client.url)}:\n  {found}", err=True)
    click.confirm("Is it the one that the service showed at its start?", abort=True, err=True)
    session.trust(found)
    return session.client.ask_login(host, account, role)


def _wait(session: CliSession, asked: Json) -> Json:
    """Return the token once the login is approved. Raises ClientError if it is refused, or ends before."""
    end = time.monotonic() + float(asked["expires_in"])
    pause = min(max(float(asked["interval"]), _SHORTEST_S), _LONGEST_S)
    while time.monotonic() < end:
        try:
            answer = session.client.take_login(asked["secret"])
        except UnreachableError:
            answer = {"state": "waiting"}  # it may come back, as long as the login lasts
        except ApiError as error:
            if error.status != 404:
                raise
            break
        if answer["state"] == "refused":
            raise ClientError("the login was refused on the page")
        if answer["state"] == "approved":
            token: Json = answer["token"]
            return token
        time.sleep(pause)
    raise ClientError(
        "nobody approved the login in time, or the service was started anew: run `schedulearn login` again"
    )


def _has_browser() -> bool:
    """Return whether a browser can be opened beside this terminal. One inside of it would hide the code."""
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@click.command(cls=Command)
@click.argument("name", required=False, metavar="[NAME]")
@pass_session
def logout(session: CliSession, name: str | None) -> int:
    """Log out: revoke this machine's token and forget it.

    NAME is a context, by default the one in use. Tokens that were made with the token are revoked too.

    \b
    Example:
      schedulearn logout
    """
    name = name or store.current_name()
    if name is None:
        raise ClientError("no context is in use: see `schedulearn contexts ls`")
    context = store.read_context(name)
    trouble = _revoke(session, context)
    store.remove_context(name)
    if session.as_json:
        print_json({"context": name, "revoked": trouble is None})
    else:
        click.echo(f"Logged out of {clean(context.url)}.")
    if trouble is not None:
        click.echo(f"Its token could not be revoked ({clean(trouble)}): do that on the page.", err=True)
    return 0 if trouble is None else 1


def _revoke(session: CliSession, context: store.Context) -> str | None:
    """Revoke the token of a context. Return why that failed; None: it is revoked."""
    session.url, session.token, session.ca = context.url, context.token, context.ca
    try:
        token_id = session.client.whoami()["token_id"]
        if token_id is None:
            return "it is the service's own"
        session.client.revoke_token(int(token_id))
    except ApiError as error:
        return None if error.status in (401, 404) else str(error)  # it has ended before
    except ClientError as error:
        return str(error)
    return None


@click.group(cls=Group)
def contexts() -> None:
    """Manage the services that you are logged in to.

    A variable goes before them: SCHEDULEARN_CONTEXT names one, SCHEDULEARN_URL an address."""


@contexts.command("ls")
@pass_session
def list_contexts(session: CliSession) -> None:
    """List the contexts; * marks the one in use.

    \b
    Example:
      schedulearn contexts ls
    """
    found, current = store.list_contexts(), store.current_name()
    if session.as_json:
        print_json({"current": current, "items": [{"name": each.name, "url": each.url} for each in found]})
        return
    rows = [["*" if each.name == current else "", each.name, each.url] for each in found]
    print_table(session, ("", "NAME", "URL"), rows)


@contexts.command("use")
@click.argument("name")
def use(name: str) -> None:
    """Use another context from now on.

    \b
    Example:
      schedulearn contexts use gpu1
    """
    store.use_context(name)
    click.echo(f"{name} is {clean(store.read_context(name).url)}")
    if store.current_name() != name:
        click.echo("A variable of the environment goes before it: see `schedulearn contexts --help`.", err=True)
