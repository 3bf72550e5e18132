"""The list of commands, which is shown without importing them."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from services import Service

from schedulearn.main import cli

SERVER = (
    "numpy", "scipy", "pydantic", "sqlalchemy", "sqlmodel", "fastapi", "starlette", "uvicorn", "docker",
    "schedulearn.scheduler.store", "schedulearn.scheduler.runtimes", "schedulearn.api.answers",
)  # fmt: skip
NOT_FOR_HELP = (*SERVER, "httpx", "rich", "yaml", "ssl", "schedulearn.api.client.client", "schedulearn.api.cli.submit")
NOT_FOR_LS = (*SERVER, "asyncio", "rich", "pygments", "yaml", "schedulearn.api.cli.submit")


@pytest.mark.parametrize("name", cli.known)
def test_the_list_says_what_the_command_says(name: str) -> None:
    command = cli.commands[name]
    assert (command.name, cli.known[name][1].help) == (name, command.get_short_help_str(61))


def test_help_lists_every_command() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).output
    known = {name: command.help for name, (_, command) in cli.known.items()}
    assert [name for name, text in known.items() if f"  {name} " not in shown or text not in shown] == []


@pytest.mark.parametrize(("arguments", "not_imported"), [("--help", NOT_FOR_HELP), ("ls", NOT_FOR_LS)])
def test_a_command_imports_only_what_it_needs(service: Service, arguments: str, not_imported: tuple[str, ...]) -> None:
    program = (
        "import sys\n"
        "from schedulearn.main import cli\n"
        f"cli.main([{arguments!r}, '--url', {service.url!r}], standalone_mode=False)\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [name for name in not_imported if name in done.stderr.splitlines()] == []


def test_an_unknown_command_is_refused() -> None:
    with pytest.raises(click.UsageError, match="No such command 'lss'"):
        cli.main(["lss"], standalone_mode=False)
    with pytest.raises(KeyError):
        cli.commands["lss"]
