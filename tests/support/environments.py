"""Real training in the environments that local jobs run in, with the SDK as the service puts it there."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schedulearn.scheduler.runtimes.sdk import unpack_sdk

FRAMEWORKS = Path(__file__).parents[2] / "requirements/frameworks.txt"


def install_frameworks(prefix: Path) -> Path:
    """Install what requirements/frameworks.txt names, beside the environments, unless it is there already."""
    key = hashlib.sha256(FRAMEWORKS.read_bytes()).hexdigest()[:8]
    folder = prefix.parent.parent / f"frameworks-{prefix.name.split('-')[4]}-{key}"
    if folder.exists():
        return folder
    made = Path(tempfile.mkdtemp(prefix="frameworks-", dir=folder.parent))
    pip = [prefix / "bin/pip", "install", "--quiet", "--no-deps", "--target", made, "-r", FRAMEWORKS]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"the frameworks can't be installed: {done.stderr[-3000:]}"
    try:
        made.rename(folder)  # whole, or not there
    except OSError:  # another process was first
        shutil.rmtree(made)
    return folder


class Python:
    """One of those environments. `job`: variables that make a script one of Schedulearn's jobs. `paths`: more
    folders to import from."""

    def __init__(self, prefix: Path, folder: Path, *paths: str, **env: str) -> None:
        self.folder = folder
        self.sdk = str(unpack_sdk(folder / "sdk"))
        self.env = {
            "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": ":".join([self.sdk, *paths]),
            "OMP_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **env,
        }
        self.job = {"SCHEDULEARN_JOB_ID": "j", "SCHEDULEARN_CHECKPOINT_DIR": str(folder / "checkpoints")}

    def run(self, kind: str, workers: int, *command: str, code: int = 0, **env: str) -> str:
        """What it prints; it must end with `code`."""
        with self.begin(kind, workers, *command, **env) as process:
            output, _ = process.communicate(timeout=240)
        assert process.returncode == code, output[-6000:]
        return output

    def stop(self, kind: str, workers: int, *command: str, after: int, **env: str) -> str:
        """Ends this first attempt by SIGTERM once rank 0 has written `after` lines to its file seen-1-0.jsonl."""
        seen = self.folder / "seen-1-0.jsonl"
        with self.begin(kind, workers, *command, **env, SCHEDULEARN_ATTEMPT="1") as process:
            end = time.monotonic() + 120
            while not seen.exists() or len(seen.read_text().splitlines()) < after:
                assert process.poll() is None, process.communicate()[0][-6000:]
                assert time.monotonic() < end
                time.sleep(0.05)
            os.killpg(process.pid, signal.SIGTERM)
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 75, output[-6000:]
        return output

    @contextmanager
    def begin(self, kind: str, workers: int, *command: str, **env: str) -> Iterator["subprocess.Popen[str]"]:
        launch = ["python3", "-m", "schedulearn.worker.launch", kind, str(workers)] if kind != "alone" else []
        with subprocess.Popen(
            [*launch, "python3", *command],
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


def epochs_of(output: str) -> list[tuple[int, float]]:
    """(epoch, sum of the weights), all of which the workers agreed on."""
    found = re.findall(r"epoch (\d+) accuracy [0-9.]+ same (\w+) weights ([0-9.]+)", output)
    assert {same for _, same, _ in found} == {"True"}, output[-3000:]
    return [(int(epoch), float(weights)) for epoch, _, weights in found]


def final(output: str) -> dict[str, Any]:
    found = json.loads(re.findall(r"final (\{.*\})", output)[0])
    assert isinstance(found, dict)
    return found
