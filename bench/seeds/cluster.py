"""A real service over hosts of local processes with simulated GPUs, and the jobs that a table submits to it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from bench.measured_service import Service, service
from bench.seeds.measures import GpuSpan, Run

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs"
FRAMEWORKS = {"pytorch": "cpu", "keras": "keras", "tensorflow": "tensorflow", "mxnet": "mxnet"}
"""Framework -> the environment of local jobs that has it."""
SCRIPTS = {"pytorch": "pytorch.py", "keras": "keras_fit.py", "tensorflow": "keras_fit.py", "mxnet": "gluon.py"}
TYPES = {"pytorch": "Pytorch", "keras": "Keras", "tensorflow": "Tensorflow", "mxnet": "MXNet"}
HOSTS_MEET_AT = "127.0.0.1"
LOOK_S = 0.2
END_S = 120.0


@cache
def environment(framework: str) -> str:
    """The prefix of the environment that has the framework; built if it is not there, which is told."""
    script = ROOT / "worker_images/build-env.sh"
    flavour = FRAMEWORKS[framework]
    with subprocess.Popen([script, flavour], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as build:
        assert build.stdout is not None
        assert build.stderr is not None
        last = ""
        for line in build.stdout:
            last = line.strip()
            if last.startswith("progress ") and not last.startswith("progress 100"):
                progress(f"environment {flavour}: {last.removeprefix('progress ')}")
        told = build.stderr.read()
    if build.returncode != 0:
        raise RuntimeError(f"the environment of {framework} can't be built: {told.strip()}")
    return last.removeprefix("ready ")


def progress(text: str) -> None:
    """On a terminal one line that moves; else nothing, so that a file holds the tables only."""
    if sys.stderr.isatty():
        print(f"\r\033[K  {text}", end="", file=sys.stderr, flush=True)


@dataclass
class Lab:
    """The running service and what was submitted to it."""

    target: Service
    folder: Path
    gpus: int
    seconds_a_sample: float
    """What the simulated device takes of each sample; 0: there is none, the work is the processor's alone."""
    ids: list[str] = field(default_factory=list)

    @property
    def device_folder(self) -> Path:
        return self.folder / "devices"

    def policy(self, algorithm: str, metric: str = "default", **params: object) -> None:
        self.target.request("PUT", "/api/v1/policy", {"algorithm": algorithm, "metric": metric, "params": params})

    def submit(self, framework: str, flags: str, script: str = "", **fields: Any) -> str:
        env = {
            "DEVICE_SECONDS_A_SAMPLE": str(self.seconds_a_sample),
            "DEVICE_FOLDER": str(self.device_folder),
            "MNIST_PATH": str(self.folder / "digits.npz"),
            "KERAS_BACKEND": "tensorflow" if framework == "tensorflow" else "torch",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **fields.pop("env", {}),
        }
        body = {
            "name": framework, "type": TYPES[framework], "container_image": framework,
            "command": f"python3 {JOBS / (script or SCRIPTS[framework])} {flags}",
            "required_gpus": 1, "env": env, **fields,
        }  # fmt: skip
        job_id = str(self.target.request("POST", "/api/v1/jobs", body)["id"])
        self.ids.append(job_id)
        return job_id

    def job(self, job_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.target.get(f"/api/v1/jobs/{job_id}")
        return found

    def log(self, job_id: str) -> str:
        import urllib.request

        url = f"http://127.0.0.1:{self.target.port}/api/v1/jobs/{job_id}/logs"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return str(answer.read().decode(errors="replace"))

    def wait(self, job_ids: Sequence[str], what: str) -> list[Run]:
        """Until all have ended. Raises RuntimeError if one did not succeed."""
        left = list(job_ids)
        began = time.monotonic()
        while left:
            ended = [job_id for job_id in left if self.job(job_id)["finished_at"] is not None]
            left = [job_id for job_id in left if job_id not in ended]
            progress(f"{what}: {len(job_ids) - len(left)} of {len(job_ids)} jobs, {time.monotonic() - began:.0f} s")
            if left:
                time.sleep(LOOK_S)
        return [self.run(job_id) for job_id in job_ids]

    def run(self, job_id: str) -> Run:
        found = self.job(job_id)
        if found["state"] != "succeeded":
            raise RuntimeError(f"job {job_id} {found['state']}: {found['message']}\n{self.log(job_id)[-3000:]}")
        spans = [
            GpuSpan(uuid, seconds(task["started_at"]), seconds(task["finished_at"]), task["attempt"])
            for task in found["tasks"]
            if task["started_at"] is not None and task["finished_at"] is not None
            for uuid in task["gpu_uuids"]
        ]
        return Run(
            job_id,
            seconds(found["submitted_at"]),
            seconds(found["started_at"]),
            seconds(found["finished_at"]),
            tuple(spans),
            found["restarts"],
        )

    def busy_seconds(self) -> float:
        """That all devices worked, by what the jobs wrote down."""
        files = self.device_folder.glob("*.busy")
        return sum(float(line) for file in files for line in file.read_text().split())

    def end(self) -> None:
        """Cancels what still runs, and sees it end: jobs outlive their service."""
        left = set(self.ids)
        end = time.monotonic() + END_S
        for job_id in list(left):
            with suppress(urllib.error.HTTPError):  # it has ended
                self.target.request("POST", f"/api/v1/jobs/{job_id}/cancel", {})
        while left and time.monotonic() < end:
            left -= {job_id for job_id in left if self.job(job_id)["finished_at"] is not None}
            if left:
                time.sleep(LOOK_S)


def seconds(instant: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(instant).timestamp()


@contextmanager
def lab(
    frameworks: Sequence[str],
    hosts: Sequence[int],
    *,
    seconds_a_sample: float = 0.0,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Lab]:
    """A new service with `hosts`: the number of simulated GPUs of each. The first is the service's own."""
    prefixes = {framework: environment(framework) for framework in frameworks}
    further = [
        {"name": f"host-{number}", "address": f"tcp://{HOSTS_MEET_AT}:{9000 + number}", "simulate_gpus": gpus}
        for number, gpus in enumerate(hosts[1:], 2)
    ]
    chosen: dict[str, object] = {
        "report_interval": 1, "environments": prefixes, "hosts": further, **(settings or {}),
    }  # fmt: skip
    env = {
        f"SCHEDULEARN_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in chosen.items()
    }
    program = (sys.executable, "-m", "bench.seeds.serve_hosts")
    with tempfile.TemporaryDirectory(prefix="schedulearn-seeds-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "devices").mkdir()
        _save_digits(Path(folder) / "digits.npz")
        flags = ("--runtime", "process", "--simulate-gpus", str(hosts[0]))
        env["PYTHONPATH"] = str(ROOT)
        with service(*flags, data=Path(folder) / "data", env=env, program=program) as target:
            made = Lab(target, Path(folder), sum(hosts), seconds_a_sample)
            _wait_for_hosts(target, len(hosts))
            try:
                yield made
            finally:
                made.end()


def _wait_for_hosts(target: Service, count: int) -> None:
    end = time.monotonic() + END_S
    while sum(1 for host in target.get("/api/v1/hosts") if host["reachable"]) < count:
        if time.monotonic() > end:
            raise RuntimeError(f"not all of {count} hosts answer: {target.get('/api/v1/hosts')}")
        time.sleep(LOOK_S)


def _save_digits(file: Path) -> None:
    """scikit-learn's digits as the example `digits` splits them, in the form of MNIST: its import takes each worker a
    second of a core, as much as PyTorch's."""
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    images = digits.images * (255 / 16)
    parts = train_test_split(images, digits.target, test_size=0.2, stratify=digits.target, random_state=0)
    np.savez(file, **dict(zip(("x_train", "x_test", "y_train", "y_test"), parts, strict=True)))
