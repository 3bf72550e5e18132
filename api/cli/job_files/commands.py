"""Command `init`, which makes a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from schedulearn.api.cli.common import SHARED, CliSession, clean, key_and_value, pass_session
from schedulearn.api.cli.job_files.template import Key, commented, keys_of, own_keys
from schedulearn.api.cli.submit import (
    NO_KEYS,
    SubmitCommand,
    complete,
    given_keys,
    given_pairs,
    submit,
)
from schedulearn.api.client.client import Json


class _Init(SubmitCommand):
    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "[FILE] [-- COMMAND...]"]


@click.pass_context
@pass_session
def _init(
    session: CliSession,
    context: click.Context,
    /,
    target: str,
    force: bool,
    env: tuple[str, ...],
    mounts: tuple[str, ...],
    secrets: tuple[str, ...],
    labels: tuple[str, ...],
    elastic: bool,
    **flags: Any,
) -> None:
    """Write a job file with a comment for every key.

    FILE is job.yaml by default, `-` for stdout. The options are those of `submit`. On a terminal it asks for required
    keys. Nothing is submitted.

    \b
    Examples:
      schedulearn init --image schedulearn/pytorch --gpus 2 -- python train.py
      schedulearn init -
    """
    given = given_keys(context, flags, mounts, elastic)
    if secrets:
        given["secrets"] = dict(key_and_value(secret, "--secret") for secret in secrets)
    if session.pretty and target != "-":
        _ask(given)
    given.setdefault("container_image", "schedulearn/pytorch")
    given.setdefault("command", "python train.py")
    job = complete({}, given, *given_pairs(env, labels))
    text = commented(job, _keys(session))
    if target == "-":
        click.echo(text, nl=False)
        return
    try:
        with Path(target).open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{clean(target)} exists already: name another file, or use --force") from None
    except OSError as error:
        raise click.UsageError(f"{clean(target)} can't be written: {error.strerror}") from error
    click.echo(f"Wrote {clean(target)}. Submit it with: schedulearn submit {clean(target)}", err=True)


def _keys(session: CliSession) -> dict[str, Key]:
    """Return the keys of a job: those of this version, or on a laptop those of the service."""
    try:
        return own_keys()
    except ModuleNotFoundError:
        return keys_of(session.client.api_description())


def _ask(given: Json) -> None:
    """Ask for the image, the command and the GPUs, unless flags give them."""
    if "container_image" not in given:
        given["container_image"] = click.prompt("Container image", default="schedulearn/pytorch")
    if "command" not in given:
        given["command"] = click.prompt("Command", default="python train.py")
    if "required_gpus" not in given:
        given["required_gpus"] = click.prompt("GPUs (0: none)", default=1, type=click.IntRange(0))


_NOT_HERE = ("detach", *NO_KEYS, *SHARED)
init = _Init(
    "init",
    callback=_init,
    help=_init.__doc__,
    params=[
        click.Argument(["target"], metavar="FILE", required=False, default="job.yaml"),
        click.Option(["--force"], is_flag=True, help="Overwrite an existing file."),
        *(option for option in submit.params if option.name not in _NOT_HERE),
    ],
)
"""Command with the flags of `submit`, which cover every key of a job."""
