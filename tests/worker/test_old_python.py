"""The SDK on Python 3.8, which long-standing images have (horovod/horovod): its syntax, and what it imports.

ruff refuses what is newer than that by itself (`per-file-target-version`); a real Python 3.8 proves it.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from schedulearn.scheduler.runtimes.sdk import unpack_sdk

PLAIN = ("environment", "launch", "measurements", "order", "reporter", "workers")
"""Of `schedulearn.worker`: what needs no framework."""


def sources(folder: Path) -> list[Path]:
    return sorted(unpack_sdk(folder).rglob("*.py"))


def old_python() -> str | None:
    named = os.environ.get("SCHEDULEARN_TEST_PYTHON38")
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    pyenv = sorted(root.glob("versions/3.8.*/bin/python3.8"))
    return named or (str(pyenv[-1]) if pyenv else working(shutil.which("python3.8")))


def working(candidate: str | None) -> str | None:
    """A version manager's command of that name may stand for no Python at all: it is asked for its version first."""
    asked = [str(candidate), "-c", "import sys; print(sys.version_info[:2])"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout if candidate else ""
    return candidate if said == "(3, 8)\n" else None


def test_a_command_that_stands_for_no_python_is_none(tmp_path: Path) -> None:
    for name, script in {"shim": "echo pyenv: not found >&2; exit 127", "newer": "echo '(3, 11)'"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
        assert working(str(tmp_path / name)) is None
    assert working(None) is None


def test_all_that_jobs_import_is_python_3_8_to_the_parser(tmp_path: Path) -> None:
    found = sources(tmp_path)
    assert len(found) > 30
    for path in found:
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))


def test_a_real_python_3_8_compiles_all_and_runs_what_needs_no_framework(tmp_path: Path) -> None:
    python = old_python()
    if python is None:
        pytest.skip("NOT tested here: there is no Python 3.8. Set SCHEDULEARN_TEST_PYTHON38 to one")
    paths = [str(path) for path in sources(tmp_path)]
    compiles = "import sys; [compile(open(p).read(), p, 'exec') for p in sys.argv[1:]]; print(sys.version_info[:2])"
    done = subprocess.run([python, "-c", compiles, *paths], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("(3, 8)\n", "")
    code = (
        "import importlib, sys, types\n"
        "class Floats: pass\n"
        "numpy = types.ModuleType('numpy'); numpy.float64 = numpy.int64 = float; numpy.ndarray = list\n"
        "numpy.linspace = lambda *_: []\n"
        "sys.modules['numpy'] = numpy\n"
        f"for name in {PLAIN}: importlib.import_module('schedulearn.worker.' + name)\n"
        "from schedulearn.worker.environment import Environment\n"
        "print(Environment.read({'SCHEDULEARN_JOB_ID': 'j', 'SCHEDULEARN_BATCH_SIZE': '8'}).batch_size)"
    )
    env = {"PYTHONPATH": str(unpack_sdk(tmp_path)), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "8\n", done.stderr
