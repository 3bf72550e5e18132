"""Command group `secrets`."""

from __future__ import annotations

import sys

import click

from schedulearn.api.cli.common import CliSession, Group, clean, pass_session, print_json, print_table
from schedulearn.api.cli.times import show_time


@click.group(cls=Group)
def secrets() -> None:
    """Manage secrets, which jobs get as variables.

    Secrets are stored encrypted, never shown, and masked in logs."""


@secrets.command("set")
@click.argument("name")
@click.option("--shared", is_flag=True, help="For the jobs of all users. Only for admins.")
@pass_session
def set_secret(session: CliSession, /, name: str, shared: bool) -> None:
    """Create or change a secret.

    It asks for the value. In a pipe, it reads the value from stdin, without the last line end.

    \b
    Examples:
      schedulearn secrets set wandb
      schedulearn secrets set wandb < ~/.wandb-key
      schedulearn submit --secret WANDB_API_KEY=wandb --image IMAGE -- python train.py
    """
    asked = sys.stdin.isatty()
    value = (
        click.prompt(f"Value of {name}", hide_input=True, err=True) if asked else sys.stdin.read().removesuffix("\n")
    )
    made = session.client.set_secret(name, value, shared=shared)
    if session.as_json:
        print_json(made)
        return
    click.echo(f"secret {clean(name)} is set")


@secrets.command("ls")
@pass_session
def list_secrets(session: CliSession) -> None:
    """List the names of the secrets that your jobs may use.

    Admins see all names.

    \b
    Example:
      schedulearn secrets ls
    """
    found = session.client.secrets()
    if session.as_json:
        print_json(found)
        return
    rows = [[each["name"], each["owner"] or "everybody", show_time(each["changed_at"])] for each in found["items"]]
    print_table(session, ("NAME", "OWNER", "CHANGED"), rows)


@secrets.command("rm")
@click.argument("name")
@click.option("--shared", is_flag=True, help="Delete the secret that is shared by all users.")
@pass_session
def remove(session: CliSession, name: str, shared: bool) -> None:
    """Delete a secret. Jobs that start later don't get it.

    \b
    Example:
      schedulearn secrets rm wandb
    """
    session.client.remove_secret(name, shared=shared)
    if not session.as_json:
        click.echo(f"secret {clean(name)} is removed")
