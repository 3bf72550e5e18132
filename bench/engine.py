"""The Docker Engine that is measured: DOCKER_HOST, or one that scripts/dev-engine.sh starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]


@contextmanager
def engine() -> Iterator[bool]:
    """Whether there is one, at DOCKER_HOST from here on; says why not. One that was started ends with the block."""
    script = [ROOT / "scripts/dev-engine.sh"]
    running = subprocess.run([*script, "status"], capture_output=True, check=False).returncode == 0
    started = subprocess.run([*script, "start"], capture_output=True, text=True, check=False)
    if started.returncode != 0:
        print(f"  NOT MEASURED: no Docker Engine: {started.stderr.strip()}")
        yield False
        return
    os.environ["DOCKER_HOST"] = started.stdout.strip().splitlines()[-1].removeprefix("DOCKER_HOST=")
    try:
        yield True
    finally:
        if not running:
            subprocess.run([*script, "stop"], capture_output=True, check=False)
