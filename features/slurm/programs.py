"""Programs of Slurm as commands: their words are read as Slurm reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from schedulearn.api.cli.common import CliSession, clean
from schedulearn.api.client.client import ClientError, Json


class Program(click.Command):
    """Command that gets its words as they are. Errors begin with its name, and the exit code is 1, as with Slurm."""

    def __init__(self, *args: Any, **options: Any) -> None:
        # -h is --noheader in some of them.
        super().__init__(*args, **{"context_settings": {"help_option_names": ["--help"]}, **options})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["--help"]:
            click.echo(self.get_help(ctx))
            ctx.exit()
        ctx.params["words"] = tuple(args)
        return []

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[OPTIONS]..."]

    def invoke(self, ctx: click.Context) -> Any:
        ctx.ensure_object(CliSession)
        try:
            return super().invoke(ctx)
        except (ValueError, ClientError) as error:
            told = "\n".join(map(clean, str(error).splitlines())).removeprefix(f"{self.name}: ")
            click.echo(f"{self.name}: error: {told}", err=True)
            ctx.exit(1)


def say(ctx: click.Context, sentence: str) -> None:
    """Print a remark on stderr, with the program's name."""
    click.echo(f"{ctx.command.name}: {clean(sentence)}", err=True)


def tell_user(session: CliSession, ctx: click.Context, given: Mapping[str, str], found: Sequence[Json]) -> None:
    """Say who you are here if nothing is found for another name, which `$USER` may be."""
    name = given.get("user", "")
    if name and not found and name != (me := session.user()):
        say(
            ctx,
            f"no such jobs of {name}; you are {me} here: use {'--me' if ctx.command.name != 'sacct' else f'-u {me}'}",
        )
