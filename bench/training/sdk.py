"""Cost of the worker SDK. Budgets: 2 % of a step of 50 ms; a resize by checkpoint stalls 3 x a bare container start,
one in place 6 s.

The stall is the time from the last step before a resize to the first one after it, of a job in containers; the bare
start is `docker run` of the same image until its Python has imported the same, in the same run.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.measured_service import Service, service, verdict
from schedulearn.scheduler.runtimes.sdk import unpack_sdk

ROOT = Path(__file__).parents[2]
ROUNDS = 5
IMPORTS = "import torch, horovod.torch as hvd, sklearn.datasets, sklearn.model_selection; hvd.init()"


def main() -> bool:
    kept = _overhead()
    return _stall() and kept


def _overhead() -> bool:
    build = subprocess.run([ROOT / "worker_images/build-env.sh"], capture_output=True, text=True, check=True)
    prefix = build.stdout.strip().splitlines()[-1].removeprefix("ready ")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        env = {
            "PATH": f"{prefix}/bin:{os.environ['PATH']}", "PYTHONPATH": str(unpack_sdk(Path(folder))),
            "OMP_NUM_THREADS": "1", "SCHEDULEARN_JOB_ID": "bench",
        }  # fmt: skip
        for workers in (1, 2):
            command = ["python3", "-m", "schedulearn.worker.launch", "horovod", str(workers), "python3"]
            done = subprocess.run(
                [*command, str(ROOT / "bench/training/sdk_steps.py")],
                env=env,
                capture_output=True,
                text=True,
                check=True,
            )
            found = json.loads(done.stdout[done.stdout.index("{") :])
            ratios.append(found["ratio"] - 1)
            print(
                f"  {workers} workers: {found['plain'] * 1e3:.2f} ms plain, {found['sdk'] * 1e3:.2f} ms with the SDK: "
                f"{found['ratio'] - 1:+.2%}; plain against plain {found['control_ratio'] - 1:+.2%}"
            )
    worst = max(ratios)
    return verdict("overhead of the SDK at steps of 50 ms", f"{worst:.1%}", "<= 2 %", worst <= 0.02)


def _stall() -> bool:
    engine = [ROOT / "scripts/dev-engine.sh"]
    running = subprocess.run([*engine, "status"], capture_output=True, check=False).returncode == 0
    started = subprocess.run([*engine, "start"], capture_output=True, text=True, check=False)
    if started.returncode != 0:
        print(f"  NOT MEASURED: no Docker Engine: {started.stderr.strip()}")
        return True
    os.environ["DOCKER_HOST"] = started.stdout.strip().splitlines()[-1].removeprefix("DOCKER_HOST=")
    try:
        return _compare()
    finally:
        if not running:
            subprocess.run([*engine, "stop"], capture_output=True, check=False)


def _compare() -> bool:
    subprocess.run([ROOT / "worker_images/build-image.sh", "cpu"], capture_output=True, check=True)
    os.environ["SCHEDULEARN_POLICIES"] = json.dumps([f"{ROOT / 'tests/support/resizing.py'}:Sized"])
    bare, stalls = _stalls("restart")
    _, in_place = _stalls("in-place")
    ratio = statistics.median(stalls) / statistics.median(bare)
    print(f"  bare start: {statistics.median(bare):.2f} s, stall of a resize: {statistics.median(stalls):.2f} s")
    kept = verdict("stall of a resize over a bare container start", f"{ratio:.2f} x", "<= 3 x", ratio <= 3)
    median, most = statistics.median(in_place), max(in_place)
    print(f"  in place: {median:.2f} s, at most {most:.2f} s")
    return verdict("stall of a resize in place", f"{median:.2f} s", "<= 6 s", median <= 6) and kept


def _stalls(how: str) -> tuple[list[float], list[float]]:
    """Seconds of bare starts, and of resizes between them: 1 worker to 2 and back."""
    body = json.loads((ROOT / "worker_images/examples/digits/job-sdk.json").read_text())
    body["command"] += " --epochs 100000 --max-batch 64"
    body["resize"] = how
    bare, stalls = [], []
    with service("--runtime", "docker", "--simulate-gpus", "4") as target:
        _resize(target, 1)
        job = target.request("POST", "/jobs", body)["id"]
        _wait_for(target, job, "epoch 1/", 1)
        for round_number in range(1, ROUNDS + 2):
            began = time.perf_counter()
            subprocess.run(["docker", "run", "--rm", body["container_image"], "python", "-c", IMPORTS], check=True)
            took = time.perf_counter() - began
            _resize(target, 1 + round_number % 2)
            stall = float(_wait_for(target, job, r"first step ([0-9.]+) s after", round_number))
            if round_number > 1:  # the first warms both up
                bare.append(took)
                stalls.append(stall)
        target.request("DELETE", f"/api/v1/jobs/{job}")
        while target.get(f"/api/v1/jobs/{job}")["state"] != "cancelled":
            time.sleep(0.1)
    return bare, stalls


def _resize(target: Service, gpus: int) -> None:
    target.request("PUT", "/api/v1/policy", {"algorithm": "sized", "params": {"gpus": gpus}})


def _wait_for(target: Service, job: str, words: str, times: int) -> str:
    """The last of `times` matches of `words` in the job's log."""
    while True:
        with urllib.request.urlopen(f"http://127.0.0.1:{target.port}/api/v1/jobs/{job}/logs", timeout=30) as answer:
            log = answer.read().decode()
        found = re.findall(words, log)
        if len(found) >= times:
            return str(found[-1])
        if target.get(f"/api/v1/jobs/{job}")["finished_at"]:
            raise RuntimeError(f"the job has ended: {log[-2000:]}")
        time.sleep(0.1)
