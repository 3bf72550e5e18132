"""The list of commands, which is shown without importing them."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from schedulearn.api.cli import COMMANDS, cli

HEAVY = ("pydantic", "httpx", "rich", "numpy", "sqlalchemy", "fastapi", "yaml", "schedulearn.api.cli.submit")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says(name: str) -> None:
    command = cli.commands[name]
    assert (command.name, COMMANDS[name][2]) == (name, command.get_short_help_str(61))


def test_help_lists_every_command() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output
    assert [name for name, (_, _, text) in COMMANDS.items() if f"  {name} " not in shown or text not in shown] == []


def test_help_imports_no_command() -> None:
    program = (
        "import sys\n"
        "from schedulearn.api.cli import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(click.UsageError, match="No such command 'lss'"):
        cli.main(["lss"], standalone_mode=False)
    with pytest.raises(KeyError):
        cli.commands["lss"]
