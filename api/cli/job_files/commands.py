"""import slurm, init: make job files."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import IO, Any

import click

from schedulearn.api.cli.common import SHARED, Group, Session, clean, key_and_value, pass_session, print_json
from schedulearn.api.cli.job_files.slurm import from_sbatch
from schedulearn.api.cli.job_files.template import commented
from schedulearn.api.cli.job_files.writing import as_yaml
from schedulearn.api.cli.submit import (
    NO_KEYS,
    SubmitCommand,
    WordsCommand,
    complete,
    given_keys,
    given_pairs,
    given_words,
    submit,
)
from schedulearn.api.client.client import Json

_LARGEST = 1 << 20


@click.group("import", cls=Group)
def import_() -> None:
    """Makes job files of what other systems run."""


class _Slurm(WordsCommand):
    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "FILE [-- ARGS...]"]


@import_.command(cls=_Slurm)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--image", metavar="IMAGE", help="Container image to run it in, if the script names none.")
@click.option("--strict", is_flag=True, help="Print no job and end with 1 if anything was not translated.")
@click.pass_context
@pass_session
def slurm(session: Session, context: click.Context, /, file: IO[str], image: str | None, strict: bool) -> int:
    """Print the job file for a batch script of Slurm; `-` is stdin.

    The script's options become keys, the script itself the command, ARGS its arguments. Whatever is not translated
    is named on stderr with its line, and what to do instead. An array becomes a list of jobs, or a sweep if only some
    of them may run at once (`%N`). Nothing is submitted. With --json it prints JSON.

    \b
    Examples:
      schedulearn import slurm train.sbatch --image mine/torch > job.yaml
      schedulearn import slurm train.sbatch --image mine/torch -- --seed 1 | schedulearn submit --code . -
    """
    text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise click.BadParameter("a batch script has 1 MiB at most", param_hint="FILE")
    try:
        made = from_sbatch(text, PurePath(file.name).stem.strip("<>") or "job", image, given_words(context))
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="FILE") from error
    for note in made.notes:
        click.echo(f"schedulearn: {clean(note)}", err=True)
    if strict and made.untranslated:
        click.echo(f"schedulearn: nothing printed: {len(made.untranslated)} not translated (--strict)", err=True)
        return 1
    found = made.sweep or (made.jobs if len(made.jobs) > 1 else made.jobs[0])
    if session.as_json:
        print_json(found)
    elif isinstance(found, dict):
        click.echo(as_yaml(found), nl=False)
    else:
        for job in found:
            click.echo("- " + as_yaml(job).rstrip("\n").replace("\n", "\n  "))
    return 0


class _Init(SubmitCommand):
    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "[FILE] [-- COMMAND...]"]


@click.pass_context
@pass_session
def _init(
    session: Session,
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
    """Writes a job file with a comment for every key: FILE, job.yaml unless told, or `-` for stdout.

    The flags are those of `submit`. On a terminal it asks for what a job can't do without. Nothing is submitted.

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
    text = commented(job)
    if target == "-":
        click.echo(text, nl=False)
        return
    try:
        with Path(target).open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{clean(target)} is there already: name another file, or give --force") from None
    except OSError as error:
        raise click.UsageError(f"{clean(target)} can't be written: {error.strerror}") from error
    click.echo(f"Wrote {clean(target)}. Submit it with: schedulearn submit {clean(target)}", err=True)


def _ask(given: Json) -> None:
    """For the keys that neither flags nor defaults give."""
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
        click.Option(["--force"], is_flag=True, help="Over a file that is there."),
        *(option for option in submit.params if option.name not in _NOT_HERE),
    ],
)
"""With the flags of `submit`, which are those of every key of a job."""
