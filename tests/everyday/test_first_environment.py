"""`make run` begins to make the environment of local jobs only where jobs will be local processes of the usual one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "first-environment.sh"


@pytest.mark.parametrize(
    ("words", "variables", "begins"),
    [
        (["--port", "1", "--runtime", "process"], {}, True),
        (["--runtime=process"], {"DOCKER_HOST": "unix:///nowhere"}, True),
        ([], {"SCHEDULEARN_RUNTIME": "process"}, True),
        ([], {"DOCKER_HOST": "unix:///nowhere"}, False),
        (["--runtime", "docker"], {"SCHEDULEARN_RUNTIME": "process"}, False),
        (["--runtime", "process", "--config", "mine.yaml"], {}, False),
        (["--runtime", "process", "--help"], {}, False),
        (["--runtime", "process"], {"SCHEDULEARN_ENVIRONMENTS": '{"mine": "/opt/mine"}'}, False),
    ],
)
def test_when_it_is_begun(words: Sequence[str], variables: dict[str, str], begins: bool, tmp_path: Path) -> None:
    for folder in ("scripts", "worker_images"):
        (tmp_path / folder).mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    build = tmp_path / "worker_images" / "build-env.sh"
    build.write_text(f'#!/bin/sh\necho "$1 by $PYTHON" >{tmp_path}/begun\n')
    build.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SCHEDULEARN_", "DOCKER_"))}
    reads, writes = os.pipe()
    subprocess.run(
        [tmp_path / "scripts" / SCRIPT.name, sys.executable, *words],
        env={**env, **variables}, pass_fds=[writes], check=True,
    )  # fmt: skip
    os.close(writes)
    with open(reads, "rb") as everybody_has_closed_it:  # also what was begun and is not waited for
        everybody_has_closed_it.read()
    begun = tmp_path / "begun"
    assert begun.exists() == begins
    if begins:
        assert begun.read_text() == f"cpu by {sys.executable}\n"
