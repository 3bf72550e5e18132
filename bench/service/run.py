"""Seconds from Enter at `schedulearn run -- python train.py` to the first training step, over the same without it.

The folder was never an image. Beside it, in turns: a plain `docker run` of a ready image with the folder mounted, and
the interpreter itself where no Docker is. Three times are told: of the first run, when the code is sent; of a run of
the same folder; and of a run after an edit, whose budget is 3 s more than the plain one. The step counts when its line
stands on the terminal.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.engine import engine
from bench.measured_service import COMMAND, service, verdict

ROUNDS = 6
MORE_S = 3.0
ROOT = Path(__file__).parents[2]
FILES = 200
"""Beside the script, of 20 KB each: a folder of some size."""

SCRIPT = """\
import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.rand(64, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step + 1, flush=True)
"""


def main() -> bool:
    kept = [_processes()]
    with engine() as started:
        if started:
            kept.append(_docker())
    return all(kept)


def _processes() -> bool:
    prefix = Path(_ready("build-env.sh"))
    env = {"SCHEDULEARN_ENVIRONMENTS": f'{{"ready": "{prefix}"}}', "SCHEDULEARN_DEFAULT_IMAGE": "ready"}
    threads = {**os.environ, "OMP_NUM_THREADS": "1"}  # as jobs have it

    def plain(project: Path) -> float:
        return _seconds_to_step([prefix / "bin/python", "train.py"], project, threads)

    return _compare("processes", ("--runtime", "process", "--simulate-gpus", "4"), env, plain, "python train.py")


def _docker() -> bool:
    image = _ready("build-image.sh")

    def plain(project: Path) -> float:
        words = ["docker", "run", "--rm", "--init", "--shm-size", "1g", "-v", f"{project}:/workspace"]
        return _seconds_to_step([*words, "-w", "/workspace", image, "python", "train.py"], project)

    env = {"SCHEDULEARN_DEFAULT_IMAGE": image}
    return _compare("containers", ("--runtime", "docker", "--simulate-gpus", "4"), env, plain, "docker run")


def _compare(
    where: str, flags: Sequence[str], env: dict[str, str], plain: Callable[[Path], float], plainly: str
) -> bool:
    seconds: dict[str, list[float]] = {each: [] for each in (plainly, "first run", "same again", "after an edit")}
    with service(*flags, env=env) as target, tempfile.TemporaryDirectory(prefix="schedulearn-bench-") as folder:
        ours = {**os.environ, "SCHEDULEARN_URL": f"http://127.0.0.1:{target.port}"}
        words = [*COMMAND, "run", "--", "python", "train.py"]
        for number in range(ROUNDS + 1):
            project = Path(folder) / f"nets-{number}"
            _write(project, number)
            took = {plainly: plain(project), "first run": _seconds_to_step(words, project, ours)}
            took["same again"] = _seconds_to_step(words, project, ours)
            (project / "train.py").write_text(f"{SCRIPT}# edited\n")
            took["after an edit"] = _seconds_to_step(words, project, ours)
            if number:  # the first warms all of them up
                for each, value in took.items():
                    seconds[each].append(value)
    medians = {each: statistics.median(values) for each, values in seconds.items()}
    print(f"  {where}: " + ", ".join(f"{each} {value:.2f} s" for each, value in medians.items()))
    more = medians["after an edit"] - medians[plainly]
    ratio = medians["after an edit"] / medians[plainly]
    measured = f"{more:+.2f} s ({ratio:.2f} x)"
    return verdict(f"{where}, Enter to first step after an edit, over {plainly}", measured, f"<= {MORE_S:.0f} s more",
                   more <= MORE_S)  # fmt: skip


def _write(project: Path, number: int) -> None:
    project.mkdir()
    (project / "train.py").write_text(SCRIPT)
    for each in range(FILES):
        (project / f"module_{each}.py").write_text(f"# {number}\n" + "x = 1\n" * 3300)


def _seconds_to_step(words: Sequence[str | Path], project: Path, env: dict[str, str] | None = None) -> float:
    """Until its first step is told; then waits for its end."""
    began = time.perf_counter()
    with subprocess.Popen(
        words, cwd=project, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        took = time.perf_counter() - began
        process.stdout.read()
        told = process.stderr.read()
    if process.returncode or line != "step 1\n":
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {process.returncode}: {line}{told}")
    return took


def _ready(script: str) -> str:
    """What a build script makes; it returns at once where that is there."""
    done = subprocess.run([ROOT / "worker_images" / script, "cpu"], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1].removeprefix("ready ")
