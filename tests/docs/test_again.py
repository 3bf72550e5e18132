"""What failed in a run of all tests is run again, alone: flaky tests are told from broken ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts/again.py"
TESTS = """
def test_passes_alone(): pass
def test_fails_the_third_time():
    import pathlib
    runs = pathlib.Path("runs")
    runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
    assert len(runs.read_text()) < 3
"""


def again(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_some.py").write_text(TESTS)
    (folder / "failed.json").write_text(json.dumps({f"test_some.py::{name}": True for name in names}))
    command = [sys.executable, SCRIPT, "failed.json"]
    # Without the plugins of all other tests: they take most of the time in which pytest starts.
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=250, check=False)


def test_one_that_passes_alone_is_named_and_written_down(tmp_path: Path) -> None:
    done = again(tmp_path, "test_passes_alone")
    assert done.returncode == 0, done.stdout
    assert "FLAKY: 1" in done.stdout
    assert (tmp_path / "build/flaky.txt").read_text() == "test_some.py::test_passes_alone\n"


def test_one_that_fails_again_fails_the_run(tmp_path: Path) -> None:
    done = again(tmp_path, "test_fails_the_third_time")
    assert done.returncode == 1
    assert "broken: test_some.py::test_fails_the_third_time\n" in done.stdout
    assert not (tmp_path / "build").exists()


def test_many_failures_and_none_are_not_run_again(tmp_path: Path) -> None:
    assert "no coincidence" in (many := again(tmp_path, "a", "b", "c", "d")).stdout
    assert "names no test" in (none := again(tmp_path)).stdout
    assert many.returncode == none.returncode == 1
