"""hosts ls, cordon and uncordon."""

from __future__ import annotations

import click

from schedulearn.api.cli.common import Cell, Group, Session, clean, pass_session, print_json, print_table
from schedulearn.api.client import Json


@click.group(cls=Group)
def hosts() -> None:
    """The machines and their GPUs."""


@hosts.command("ls")
@pass_session
def list_hosts(session: Session) -> None:
    """Lists hosts: state, GPUs in use, and what is wrong where something is.

    \b
    Example:
      schedulearn hosts ls
    """
    found = session.client.hosts()
    if session.as_json:
        print_json(found)
        return
    print_table(
        session, ("HOST", "STATE", "USED", "GPUS", "TYPE", "RUNTIME", "ADDRESS", "PROBLEM"), list(map(_row, found))
    )


def _row(host: Json) -> list[Cell]:
    types = sorted({gpu["type"] for gpu in host["gpus"]})
    used = sum(1 for gpu in host["gpus"] if gpu["jobs"])
    state: Cell = ("unreachable", "bold red")
    if host["reachable"]:
        state = (host["state"], "green" if host["state"] == "active" else "yellow")
    return [
        host["id"],
        state,
        str(used),
        str(len(host["gpus"])),
        ",".join(types),
        host["runtime"],
        host["address"],
        (host["error"], "red"),
    ]


@hosts.command("cordon")
@click.argument("host")
@pass_session
def cordon(session: Session, host: str) -> None:
    """Takes a host out of service: its jobs go on, no others come.

    \b
    Example:
      schedulearn hosts cordon local
    """
    _print(session, session.client.cordon(host))


@hosts.command("uncordon")
@click.argument("host")
@pass_session
def uncordon(session: Session, host: str) -> None:
    """Brings a host back to service.

    \b
    Example:
      schedulearn hosts uncordon local
    """
    _print(session, session.client.uncordon(host))


def _print(session: Session, host: Json) -> None:
    if session.as_json:
        print_json(host)
    else:
        click.echo(f"{clean(host['id'])} is {host['state']}")
