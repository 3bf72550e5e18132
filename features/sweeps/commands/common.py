"""Common parts of the commands `sweep`, `experiment` and `search`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import IO

import click

from schedulearn.api.cli.common import INTERRUPTED, CliSession, Group, clean, print_json, whoami
from schedulearn.api.cli.job_files.reading import LARGEST, read_values
from schedulearn.api.client.client import ClientError, Json

START = "start"
_POLL_S = 1.0


class StartedByFile(Group):
    """Command group in which `GROUP FILE` means `GROUP start FILE`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, args if args[0] in self.commands else [START, *args])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "FILE | COMMAND [ARGS]..."]


def read_file(file: IO[str], wanted: str) -> Json:
    """Return the object in a YAML or JSON file.

    `wanted`: description of the expected object, for errors."""
    try:
        found = read_values(file.read(LARGEST + 1), file.name)
        if not isinstance(found, dict):
            raise ValueError(f"it must hold {wanted}")
        json.dumps(found, allow_nan=False)
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="FILE") from error
    return found


def complete(found: Json) -> Json:
    """Return the request with defaults for keys that the file lacks.

    The defaults are the type, one GPU, and the user. A name in the job becomes the name of the request."""
    job = found.get("job")
    if not isinstance(job, dict):
        return found
    factors = found.get("factors")
    varied = factors if isinstance(factors, dict) else {}
    common = {"type": "Pytorch", "required_gpus": 1}
    job = {**{key: value for key, value in common.items() if key not in varied}, **job}
    if "name" in job and "name" not in found:
        found = {**found, "name": job.pop("name")}
    if "user" not in job and (user := whoami()):
        job["user"] = user
    return {**found, "job": job}


def wait_for_end(session: CliSession, found: Json, goes_on: str) -> int:
    """Wait for the end, and return the exit code of the command.

    `goes_on`: message after Ctrl-C."""
    ended = until_ended(found, session.client.sweep, goes_on)
    if ended is None:
        return INTERRUPTED
    tell(session, ended)
    if ended["state"] == "cancelled":
        return INTERRUPTED
    return 1 if ended["counts"]["failed"] else 0


def until_ended(found: Json, look: Callable[[str], Json], goes_on: str) -> Json | None:
    """Wait for the end, and return the final state; None after Ctrl-C.

    `goes_on`: message after Ctrl-C."""
    try:
        while found["finished_at"] is None:
            time.sleep(_POLL_S)
            found = look(found["id"])
    except KeyboardInterrupt:
        click.echo(f"\n{goes_on}", err=True)
        return None
    return found


def tell(session: CliSession, found: Json) -> None:
    if session.as_json:
        print_json(found)
    else:
        click.echo(f"{found['id']} {found['state']}: {clean(found['message'])}")


def id_of(session: CliSession, given: str, kind: str, newest_of: Callable[[str], Json]) -> str:
    """Return the id; `last` means the user's newest one.

    `newest_of`: returns the newest ones of a user. Raises ClientError."""
    if given != "last":
        return given
    user = session.user()
    newest = newest_of(user)["items"] if user else []
    if not newest:
        raise ClientError(f"{user or 'this account'} has started no {kind}: see `schedulearn {kind} ls`")
    return str(newest[0]["id"])
