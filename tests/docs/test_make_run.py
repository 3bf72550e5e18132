"""Where `make run` keeps its data, and what it says last."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Its scripts, and a `schedulearn` that tells how it was called."""
    (tmp_path / "scripts").mkdir()
    for name in ("serve.sh", "demo.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    command = tmp_path / "schedulearn"
    command.write_text('#!/bin/sh\necho "called: $*"\n')
    command.chmod(0o755)
    return tmp_path


def said(checkout: Path, script: str, *arguments: str, **env: str) -> list[str]:
    done = subprocess.run(
        [checkout / "scripts" / script, checkout / "schedulearn", *arguments],
        env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.mark.parametrize("script", ["serve.sh", "demo.sh"])
def test_its_data_is_in_a_folder_that_git_ignores(checkout: Path, script: str) -> None:
    assert said(checkout, script, "--port", "1")[-2:] == ["", "called: serve --data .schedulearn --port 1"]
    done = subprocess.run(
        ["git", "check-ignore", ".schedulearn/schedulearn.db", ".schedulearn/x"], cwd=ROOT, check=True
    )
    assert done.returncode == 0


def test_whoever_says_where_its_data_is_is_heard(checkout: Path) -> None:
    assert said(checkout, "serve.sh", "--data", "/srv/x")[-1] == "called: serve --data /srv/x"
    assert said(checkout, "serve.sh", "--config=s.yaml")[-1] == "called: serve --config=s.yaml"
    assert said(checkout, "serve.sh", SCHEDULEARN_DATA="/srv/x")[-1] == "called: serve"
    (checkout / "schedulearn.db").touch()
    assert said(checkout, "serve.sh")[-1] == "called: serve", "an installation of before goes on"


def test_the_build_of_the_page_says_only_what_it_does(tmp_path: Path) -> None:
    for folder in ("scripts", "ui", "bin"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "scripts/build-ui.sh", tmp_path / "scripts")
    node = tmp_path / "scripts/node.sh"
    node.write_text('#!/bin/sh\necho noise; echo more >&2; test "$3" != "$FAILS"\n')
    node.chmod(0o755)

    def build(**env: str) -> subprocess.CompletedProcess[str]:
        command = [tmp_path / "scripts/build-ui.sh", ".venv"]
        return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)

    well = build(FAILS="nothing")
    assert (well.returncode, well.stderr) == (0, "")
    assert well.stdout == "installing the page's packages\nbuilding the page\n"
    ill = build(FAILS="run")
    assert (ill.returncode, ill.stderr) == (1, "noise\nmore\n")
