"""POST to container running on an idle cluster, over a plain `docker run -d` of the same image. Budget: 1.5 x.

And `docker run` of a command that ends at once, under our supervisor over the command alone. Budget: 1.15 x.
Those of a pair are timed in turns, through the same engine (DOCKER_HOST, or one that scripts/dev-engine.sh starts).
"""

from __future__ import annotations

import statistics
import subprocess
import time
from pathlib import Path

from bench.engine import engine
from bench.measured_service import JOB, service, verdict
from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.runtimes.docker.container import supervised
from schedulearn.scheduler.runtimes.docker.volumes import SDK_PATH, sdk_volume

ROUNDS = 12
ROOT = Path(__file__).parents[2]


def main() -> bool:
    with engine() as started:
        return not started or _compare()


def _compare() -> bool:
    build = subprocess.run([ROOT / "worker_images/build-image.sh", "cpu"], capture_output=True, text=True, check=True)
    image = build.stdout.strip().splitlines()[-1].removeprefix("ready ")
    plain, ours = [], []
    with service("--runtime", "docker", "--simulate-gpus", "4") as target:
        for round_number in range(ROUNDS + 1):
            began = time.perf_counter()
            done = subprocess.run(
                ["docker", "run", "-d", "--init", "--shm-size", "1g", image, "sleep", "60"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            took_plain = time.perf_counter() - began
            subprocess.run(["docker", "rm", "-f", done.stdout.strip()], capture_output=True, check=True)

            began = time.perf_counter()
            job = target.request("POST", "/jobs", {**JOB, "container_image": image, "command": "sleep 60"})["id"]
            while target.get(f"/api/v1/jobs/{job}")["state"] != "running":
                time.sleep(0.005)
            took = time.perf_counter() - began
            target.request("DELETE", f"/api/v1/jobs/{job}")
            while target.get(f"/api/v1/jobs/{job}")["state"] != "cancelled":
                time.sleep(0.05)
            if round_number:  # the first warms both up
                plain.append(took_plain)
                ours.append(took)
    ratio = statistics.median(ours) / statistics.median(plain)
    print(f"  docker run -d: {statistics.median(plain):.3f} s, POST to running: {statistics.median(ours):.3f} s")
    kept = verdict("start latency over docker run -d", f"{ratio:.2f} x", "<= 1.5 x", ratio <= 1.5)
    return _compare_supervised(image) and kept


def _compare_supervised(image: str) -> bool:
    """The service above has made the volume that holds the supervisor."""
    program = supervised(TaskSpec("bench", 1, 0, image, ("true",), ()))
    plain, ours = [], []
    for round_number in range(ROUNDS + 1):
        for times, argv in ((plain, ["true"]), (ours, program)):
            began = time.perf_counter()
            subprocess.run(
                ["docker", "run", "--rm", "--init", "--volume", f"{sdk_volume()}:{SDK_PATH}:ro",
                 "--entrypoint", argv[0], image, *argv[1:]],
                check=True,
            )  # fmt: skip
            if round_number:
                times.append(time.perf_counter() - began)
    ratio = statistics.median(ours) / statistics.median(plain)
    print(f"  docker run: {statistics.median(plain):.3f} s, under the supervisor: {statistics.median(ours):.3f} s")
    return verdict("a command under the supervisor", f"{ratio:.2f} x", "<= 1.15 x", ratio <= 1.15)
