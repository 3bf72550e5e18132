"""`make demo`: a service with examples, of which the first trains although nothing is built."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest
from clusters import wait_for
from services import COMMAND

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


def test_the_first_example_trains_before_anything_is_built(tmp_path: Path) -> None:
    flags = ("--port", "0", "--data", str(tmp_path / "data"), "--runtime", "process", "--simulate-gpus", "4")
    env = {**os.environ, "SCHEDULEARN_CACHE": str(tmp_path / "cache")}
    words = [ROOT / "scripts/demo.sh", COMMAND, *flags]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            ready = next(line for line in demo.stdout if line.startswith("Schedulearn is ready: "))
            url = ready.removeprefix("Schedulearn is ready: ").split()[0].removesuffix("/ui/")
            with httpx.Client(base_url=f"{url}/api/v1", trust_env=False, timeout=30) as client:

                def log() -> str:
                    found = client.get("/jobs", params={"q": "a circle"}).json()["items"]
                    return client.get(f"/jobs/{found[0]['id']}/logs").text if found else ""

                wait_for(lambda: "loss" in log(), seconds=120, what="training")
                wait_for(lambda: client.get("/jobs").json()["counts"].get("pulling"), seconds=60, what="the others")
        finally:
            demo.send_signal(signal.SIGTERM)
            demo.communicate(timeout=60)
    assert demo.returncode == 0
