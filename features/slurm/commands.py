"""Commands `import slurm`, `import determined` and `slurm`."""

from __future__ import annotations

from pathlib import PurePath
from typing import IO

import click

from schedulearn.api.cli.common import CliSession, Group, clean, pass_session, print_json
from schedulearn.api.cli.job_files.reading import read_values
from schedulearn.api.cli.job_files.writing import as_yaml
from schedulearn.api.cli.submit import WordsCommand, given_words
from schedulearn.features.slurm.control import scontrol
from schedulearn.features.slurm.determined import from_determined
from schedulearn.features.slurm.install import install, uninstall
from schedulearn.features.slurm.listing import sacct, sinfo, sprio, squeue
from schedulearn.features.slurm.running import salloc, sbatch, scancel, srun
from schedulearn.features.slurm.sbatch import from_sbatch

_LARGEST = 1 << 20


@click.group("import", cls=Group)
def import_() -> None:
    """Convert jobs of other systems to job files."""


class _Slurm(WordsCommand):
    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]", "FILE [-- ARGS...]"]


@import_.command("slurm", cls=_Slurm)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--image", metavar="IMAGE", help="Container image, if the script names none.")
@click.option("--strict", is_flag=True, help="If anything was not translated, print no job and exit with 1.")
@click.pass_context
@pass_session
def import_slurm(session: CliSession, context: click.Context, /, file: IO[str], image: str | None, strict: bool) -> int:
    """Print the job file for a batch script of Slurm.

    `-` is stdin. The script's options become keys, the script itself the command, ARGS its arguments. Options that are
    not translated are listed on stderr with their line and an alternative. An array becomes a list of jobs, or a sweep
    if it limits simultaneous tasks (`%N`). Nothing is submitted. --json prints JSON.

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


@import_.command()
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--image", metavar="IMAGE", help="Container image, if the configuration names none.")
@click.option("--strict", is_flag=True, help="If anything was not translated, print nothing and exit with 1.")
@pass_session
def determined(session: CliSession, file: IO[str], image: str | None, strict: bool) -> int:
    """Print the sweep for an experiment configuration of Determined.

    `-` is stdin. The searchers `random`, `grid` and `adaptive_asha` become a sweep with `search`, `single` becomes a
    job. What is not translated is listed on stderr. Nothing is submitted. --json prints JSON.

    \b
    Examples:
      schedulearn import determined adaptive.yaml > sweep.yaml
      schedulearn import determined adaptive.yaml | schedulearn sweep start --code . -
    """
    text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise click.BadParameter("a configuration has 1 MiB at most", param_hint="FILE")
    try:
        config = read_values(text, file.name)
        if not isinstance(config, dict):
            raise ValueError("it must hold one object, with entrypoint, hyperparameters and searcher")
        made = from_determined(config, image)
    except ValueError as error:
        raise click.BadParameter(clean(str(error)), param_hint="FILE") from error
    for note in made.notes:
        click.echo(f"schedulearn: {clean(note)}", err=True)
    untranslated = [note for note in made.notes if note.endswith("not translated")]
    if strict and untranslated:
        click.echo(f"schedulearn: nothing printed: {len(untranslated)} not translated (--strict)", err=True)
        return 1
    if session.as_json:
        print_json(made.found)
    else:
        click.echo(as_yaml(made.found), nl=False)
    return 0


@click.group("slurm", cls=Group)
def slurm() -> None:
    """Slurm's own commands, such as squeue and sbatch.

    `slurm install` puts them on PATH under their own names.
    """


for _command in (install, uninstall, sbatch, srun, salloc, squeue, scancel, sinfo, sacct, scontrol, sprio):
    slurm.add_command(_command)
