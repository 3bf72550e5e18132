"""Groups of commands, names of other tools, and what a shell completes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from clusters import wait_for
from services import COMMAND, Service, invoke

from schedulearn.api.cli import completion
from schedulearn.api.cli.counterparts import COUNTERPARTS
from schedulearn.api.feature import CommandGroup
from schedulearn.main import cli

Complete = Callable[..., list[str]]


def test_help_shows_every_command_in_one_of_seven_groups() -> None:
    shown = invoke("--help").out
    sections = dict(re.findall(r"^([A-Z][\w ]+):\n((?:  .+\n?)+)", shown, re.M))
    assert [name for name in sections if name not in ("Options",)] == [group.value for group in CommandGroup]
    assert len(CommandGroup) == 7
    listed = [name for group in CommandGroup for name in re.findall(r"^  ([\w-]+) ", sections[group.value], re.M)]
    assert sorted(listed) == sorted(cli.known)


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_what_is_suggested_for_a_name_of_another_tool_exists(name: str) -> None:
    assert name not in cli.known, "it is a command of ours"
    command: click.Command = cli
    words = shlex.split(COUNTERPARTS[name])
    while isinstance(command, click.Group) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    assert command is not cli
    assert not isinstance(command, click.Group)
    options = {option for param in command.params for option in param.opts}
    assert {word for word in words if word.startswith("-") and word != "--"} <= options


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("squeue", "No such command 'squeue'; use `schedulearn ls`"),
        ("SCANCEL 12", "use `schedulearn cancel JOB`"),
        ("sbatch train.sh", "use `schedulearn run -- COMMAND`"),
        ("get pods", "use `schedulearn ls`"),
        ("hosts list", "use `schedulearn hosts ls`"),
        ("secrets create a", "No such command 'create'."),
        ("lgos", "did you mean 'logs'?"),
        ("xyzzy", "No such command 'xyzzy'."),
        ("\x1b[31m", "No such command '\\\\x1b[31m'"),
    ],
)
def test_an_unknown_command_is_answered_with_ours(given: str, words: str) -> None:
    assert words in invoke(*given.split(), code=2).err


@pytest.fixture
def complete(service: Service, monkeypatch: pytest.MonkeyPatch) -> Complete:
    monkeypatch.setattr(completion, "_WAIT_S", 60.0)  # a busy machine is not what is tested

    def asked(*words: str, **env: str) -> list[str]:
        given = {"COMP_WORDS": shlex.join(["schedulearn", *words]), "COMP_CWORD": str(len(words))}
        done = invoke(url=env.pop("url", service.url), _SCHEDULEARN_COMPLETE="bash_complete", **given, **env)
        return [line.partition(",")[2] for line in done.out.splitlines()]

    return asked


def test_job_ids_are_completed_where_a_job_is_expected(service: Service, complete: Complete) -> None:
    running = service.submit_shell("sleep 60", name="sleeper")
    done = service.submit_shell("true", name="done")
    service.wait(done, "succeeded")
    wait_for(lambda: service.job(running)["state"] == "running", what="it to run")
    assert {"last", running, done} <= set(complete("logs", ""))
    assert complete("logs", done) == [done]
    assert running in complete("cancel", done, "")
    assert done not in complete("cancel", "")
    assert running not in complete("rm", "")
    assert running in complete("files", "ls", "")
    assert complete("hosts", "cor") == ["cordon"]
    assert complete("logs", "", url="http://127.0.0.1:1") == ["last"], "a service that is gone is no trouble"


@pytest.mark.process
def test_the_name_of_a_job_adds_no_item_and_reaches_no_terminal(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "_WAIT_S", 60.0)
    name = "a\nplain\nrm -rf ~\nb\x1b[2J"
    job = service.invoke("submit", "-d", "--name", name, "--image", "plain", "--", "sleep", "60").out.split()[0]
    words = {"COMP_WORDS": f"schedulearn show {job}", "COMP_CWORD": "2"}
    offered = invoke(url=service.url, _SCHEDULEARN_COMPLETE="zsh_complete", **service.env, **words).out
    assert offered.splitlines()[:2] == ["plain", job]
    assert len(offered.splitlines()) == 3, "kind, ID and description"
    assert "\x1b" not in offered


@pytest.mark.process
def test_bash_completes_after_the_installation(service: Service, tmp_path: Path) -> None:
    job = service.submit_shell("sleep 60")
    (tmp_path / ".bashrc").write_text("# mine")
    for _ in range(2):
        said = invoke("completion", "install", "--shell", "bash", HOME=str(tmp_path)).out
        assert "Installed for bash" in said
    start = (tmp_path / ".bashrc").read_text()
    assert (start.startswith("# mine\n. "), start.count("completion.bash")) == (True, 1)
    script = (
        f'. {tmp_path}/.bashrc; COMP_WORDS=(schedulearn show ""); COMP_CWORD=2; '
        '_schedulearn_completion schedulearn; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    env = {**service.env, "SCHEDULEARN_URL": service.url, "HOME": str(tmp_path)}
    env["PATH"] = f"{Path(COMMAND).parent}:{os.environ['PATH']}"

    def offered() -> list[str]:
        command = ["bash", "--norc", "-c", script]
        return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout.split()

    # On a busy machine the service may take longer than the prompt waits.
    assert wait_for(lambda: job in offered(), seconds=60, what="the job to be offered")


@pytest.mark.parametrize(("shell", "where"), [("zsh", ".zshrc"), ("fish", ".config/fish/completions/schedulearn.fish")])
def test_other_shells_load_a_script_too(tmp_path: Path, shell: str, where: str) -> None:
    invoke("completion", "install", HOME=str(tmp_path), SHELL=f"/usr/bin/{shell}")
    assert "schedulearn" in (tmp_path / where).read_text()
    assert "name the shell" in invoke("completion", "install", HOME=str(tmp_path), SHELL="/bin/tcsh", code=2).err
    assert "_SCHEDULEARN_COMPLETE" in invoke("completion", "show", "--shell", shell).out
