"""Each command of docs/first-week.md and docs/from-determined.md runs as printed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import click
import pytest
from services import COMMAND, IMAGE, Service

from schedulearn.main import cli
from schedulearn.scheduler.specs.job import JobFields

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.S)


def run_all(service: Service, page: str, folder: Path) -> list[tuple[str, str]]:
    """Each command with what it printed."""
    env = {**service.env, "SCHEDULEARN_URL": service.url, "PATH": f"{Path(COMMAND).parent}:/usr/bin:/bin"}
    shown = []
    for line in "".join(blocks(page, "sh")).splitlines():
        done = subprocess.run(["sh", "-c", line], cwd=folder, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        shown.append((line, done.stdout))
    assert len(shown) > 7
    return shown


@pytest.mark.long
@pytest.mark.process
def test_the_first_week(start_service: Callable[..., Service], tmp_path: Path) -> None:
    data, project = tmp_path / "points", tmp_path / "nets"
    data.mkdir()
    project.mkdir()
    (data / "points.json").write_text("[[1, 2], [2, 4]]")
    env = {"SCHEDULEARN_DEFAULT_IMAGE": IMAGE, "SCHEDULEARN_DATA_SETS": json.dumps({"points": str(data)})}
    service = start_service(env=env)
    [script], [sweep] = blocks("first-week.md", "python"), blocks("first-week.md", "yaml")
    (project / "train.py").write_text(script)
    (project / "sweep.yaml").write_text(sweep)
    shown = run_all(service, "first-week.md", project)
    assert shown[0][1].endswith("epoch 50 loss 0.0000\n")
    assert json.loads((project / "model.json").read_text()) == {"slope": pytest.approx(3.0)}
    jobs = service.call("GET", "/api/v1/jobs?order=oldest")["items"]
    assert {job["state"] for job in jobs} == {"succeeded"}
    runs = service.call("GET", f"/api/v1/jobs?sweep={jobs[2]['sweep']}")["items"]
    assert sorted(run["id"] for run in runs) == sorted(job["id"] for job in jobs if job["sweep"])
    assert len(runs) == 6
    assert service.call("GET", "/api/v1/jobs?sweep=none")["items"] == []
    listed = service.invoke("ls", "--all", "--json", "--sweep", str(jobs[2]["sweep"])).json["items"]
    assert [job["id"] for job in listed] == [run["id"] for run in runs]


@pytest.mark.long
@pytest.mark.process
def test_from_determined(start_service: Callable[..., Service], tmp_path: Path) -> None:
    project = tmp_path / "nets"
    project.mkdir()
    service = start_service(env={"SCHEDULEARN_DEFAULT_IMAGE": IMAGE})
    [sweep], [script] = blocks("from-determined.md", "yaml"), blocks("from-determined.md", "bash")
    (project / "const.yaml").write_text(sweep)
    (project / "train.sh").write_text(script)
    shown = dict(run_all(service, "from-determined.md", project))
    assert "trains with 0.5" in shown["schedulearn run --label project=vision -- sh train.sh 0.5"]
    assert (project / "results/lr.txt").read_text() == "0.5\n"
    assert shown["schedulearn ls --all --label project=vision"].count("succeeded") == 3


PAGES = ["first-week.md", "from-slurm.md", "from-determined.md"]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_a_page_names_is_one_with_these_options(page: str) -> None:
    text = (DOCS / page).read_text()
    lines = re.findall(r"`(schedulearn [^`\n]+)`", text) + re.findall(r"^ *(schedulearn .+)$", text, re.M)
    assert len(lines) > 12
    for line in lines:
        words = shlex.split(re.split(r" (?:&&|\|\||[|>]) ", line)[0])[1:]
        command: click.Command = cli
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command = command.commands[words.pop(0)]
        assert not isinstance(command, click.Group) or command.invoke_without_command or not words, line
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        given = {
            word.partition("=")[0] for word in takewhile("--".__ne__, words) if word.startswith("-") and word != "-"
        }
        assert given <= known, line


@pytest.mark.parametrize("page", ["from-slurm.md", "from-determined.md"])
def test_no_row_says_none_where_there_is_a_counterpart(page: str) -> None:
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", (DOCS / page).read_text(), re.M)
    assert len(rows) > 10
    names = {*cli.commands, *(option for each in cli.commands["submit"].params for option in each.opts)}
    known = {name.lstrip("-").replace("-", "_") for name in names} | JobFields.model_fields.keys()
    for theirs, ours in rows:
        if ours.startswith("none"):
            without = re.sub(r"det \w+", "", theirs.lower())
            asked = {word.lstrip("-").replace("-", "_") for word in re.findall(r"[\w-]+", without)}
            assert asked & known == set(), theirs
