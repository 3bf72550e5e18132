"""Command group `completion`, which makes a shell complete commands and job IDs."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from schedulearn.api.cli.common import Group, clean
from schedulearn.api.client.contexts import config_home, folder
from schedulearn.api.client.errors import ClientError

SHELLS = ("bash", "zsh", "fish")
_MARK = "# completion of schedulearn"
_ZSH_NEEDS = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }; "

_shell_option = click.option(
    "--shell", type=click.Choice(SHELLS), help="Shell to complete in.  [default: by the variable SHELL]"
)


@click.group(cls=Group)
def completion() -> None:
    """Complete commands and job IDs with the Tab key."""


@completion.command("show")
@_shell_option
@click.pass_context
def show(context: click.Context, shell: str | None) -> None:
    """Print the script that makes a shell complete.

    \b
    Example:
      source <(schedulearn completion show --shell bash)
    """
    click.echo(_script(context, shell or _own_shell()))


@completion.command("install")
@_shell_option
@click.pass_context
def install(context: click.Context, shell: str | None) -> None:
    """Install the completion for your account.

    It writes a script, and for bash and zsh one line into the start file that loads it. It may be repeated.

    \b
    Example:
      schedulearn completion install
    """
    shell = shell or _own_shell()
    script = _script(context, shell)
    home = Path.home()
    try:
        if shell == "fish":
            path = config_home() / "fish/completions/schedulearn.fish"
        else:
            path = folder() / f"completion.{shell}"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
        if shell == "bash":
            _load(home / ".bashrc", f". {shlex.quote(str(path))}")
        elif shell == "zsh":
            _load(Path(os.environ.get("ZDOTDIR") or home, ".zshrc"), f"{_ZSH_NEEDS}. {shlex.quote(str(path))}")
    except OSError as error:
        raise ClientError(f"{error.filename} can't be written: {error.strerror}") from error
    click.echo(f"Installed for {shell}: {clean(str(path))}. Open a new terminal to use it.")


def _load(start: Path, line: str) -> None:
    """Add a line to the start file of a shell, unless it has one of ours."""
    known = start.read_text(encoding="utf-8", errors="replace") if start.exists() else ""
    if _MARK not in known:
        with start.open("a", encoding="utf-8") as file:
            file.write(f"{'' if not known or known.endswith(chr(10)) else chr(10)}{line}  {_MARK}\n")


def _own_shell() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"name the shell: --shell {', '.join(SHELLS)}; others can't complete")
    return name


def _script(context: click.Context, shell: str) -> str:
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    return found(context.find_root().command, {}, "schedulearn", "_SCHEDULEARN_COMPLETE").source()
