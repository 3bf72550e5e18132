"""Workers that never joined a process group leave a note, and no other workers do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedulearn.scheduler.runtimes.sdk import unpack_sdk
from schedulearn.worker.supervisor import worked_alone

HOROVOD = "import horovod.torch as hvd; hvd.init()"
TORCH = "import torch.distributed as dist; dist.init_process_group('gloo'); dist.destroy_process_group()"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TORCH!r}], check=True)"


@pytest.fixture
def frameworks(tmp_path: Path) -> Path:
    """Modules built as the real ones are, which meet nobody."""
    files = {
        "horovod/common/basics.py": "class HorovodBasics:\n    def init(self): pass\n",
        "horovod/torch/__init__.py": "from horovod.common.basics import HorovodBasics\ninit = HorovodBasics().init\n",
        "torch/distributed/distributed_c10d.py": (
            "def init_process_group(backend): pass\ndef destroy_process_group(): pass\n"
        ),
        "torch/distributed/__init__.py": "from .distributed_c10d import *\n",
        "jax.py": "",
        "sitecustomize.py": "print('its own sitecustomize')\n",
    }
    for name, text in files.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "site"


def notes(tmp_path: Path, frameworks: Path, command: list[str], **env: str) -> set[str]:
    """What a worker leaves behind. This process is its launcher."""
    folder = tmp_path / "notes"
    folder.mkdir()
    path = f"{unpack_sdk(tmp_path / 'sdk')}:{frameworks}"
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "SCHEDULEARN_JOINING": str(folder)}
    variables |= {"WORLD_SIZE": "2", "RANK": "0", **env}
    launcher = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", launcher, *command], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "its own sitecustomize" in done.stdout
    return set(os.listdir(folder))


@pytest.mark.parametrize(
    ("script", "env", "expected"),
    [
        ("pass", {}, {"alone"}),
        ("pass", {"WORLD_SIZE": "", "HOROVOD_SIZE": "4"}, {"alone"}),
        ("import torch.distributed, horovod.torch", {}, {"alone"}),
        (HOROVOD, {}, {"alone", "joined"}),
        (TORCH, {}, {"alone", "joined"}),
        ("pass", {"WORLD_SIZE": "1"}, set()),
        ("pass", {"WORLD_SIZE": "many"}, set()),
        ("import jax", {}, set()),
        ("pass", {"TF_CONFIG": "{}"}, set()),
        (
            f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TORCH!r}], check=True)",
            {},
            {"alone", "joined"},
        ),
    ],
)
def test_the_notes_of_a_worker(
    tmp_path: Path, frameworks: Path, script: str, env: dict[str, str], expected: set[str]
) -> None:
    found = notes(tmp_path, frameworks, [sys.executable, "-c", script], **env)
    assert found == expected
    assert worked_alone(str(tmp_path / "notes")) == (found == {"alone"})


def test_nothing_is_claimed_of_one_step_of_a_script(tmp_path: Path, frameworks: Path) -> None:
    assert notes(tmp_path, frameworks, ["sh", "-c", '"$0" -c pass; true', sys.executable]) == set()
