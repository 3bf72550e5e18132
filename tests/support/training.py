"""Real training under the service, by tests/worker/script.py: what its workers wrote down, and how they are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from services import Service

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/worker/script.py"
SAMPLES = 1437


class Training:
    """One elastic job that runs tests/worker/script.py, or another `script`, and what its workers wrote down."""

    def __init__(
        self, served: Service, out: Path, launcher: str, *flags: str, script: Path = SCRIPT, **fields: Any
    ) -> None:
        self.served = served
        self.out = out
        out.mkdir()
        command = " ".join(["python", str(script), launcher, str(out), *flags])
        self.id = served.submit(
            command, container_image="horovod", elastic=True, max_gpus=4, launcher=launcher, **fields
        )

    def lines(self) -> list[dict[str, Any]]:
        """One for each pass of each worker that got anywhere, in order of time."""
        found = []
        for file in self.out.glob("seen-*.jsonl"):
            attempt = int(file.name.split("-")[1])
            text = file.read_text()
            found += [{**json.loads(line), "attempt": attempt} for line in text[: text.rfind("\n") + 1].splitlines()]
        return sorted(found, key=lambda line: line["at"])

    def lasting(self) -> list[dict[str, Any]]:
        """Without the steps that a later attempt did again from a checkpoint."""
        lines = self.lines()
        began = {}
        for line in lines:
            began.setdefault(line["attempt"], line["step"])
        return [
            line
            for line in lines
            if all(line["step"] < step for attempt, step in began.items() if attempt > line["attempt"])
        ]

    def wait_for(self, size: int, seconds: float = 90.0) -> None:
        """Until `size` workers have done some steps from now on."""
        now, end = time.time(), time.monotonic() + seconds
        while sum(line["size"] == size and line["at"] > now for line in self.lines()) < 8 * size:
            job = self.served.job(self.id)
            assert job["state"] not in ("failed", "succeeded"), self.served.logs(self.id)[-3000:]
            assert time.monotonic() < end, (job, self.served.logs(self.id)[-3000:], self.served.log()[-2000:])
            time.sleep(0.05)

    def finish(self) -> float:
        """The final accuracy."""
        job = self.served.wait(self.id, "succeeded", "failed", seconds=150)
        log = self.served.logs(self.id)
        assert job["state"] == "succeeded", log[-3000:]
        return float(re.findall(r"final accuracy ([0-9.]+)", log)[-1])

    def check_samples(self, epochs: int) -> None:
        for epoch in range(epochs):
            seen = Counter(
                index
                for line in self.lasting()
                if line["epoch"] == epoch and line.get("weight", 1) > 0
                for index in line["seen"]
            )
            assert sorted(seen) == list(range(SAMPLES)), f"epoch {epoch} left out {SAMPLES - len(seen)} samples"
            assert set(seen.values()) == {1}, f"epoch {epoch} saw {seen.most_common(3)}"

    def hurry(self) -> None:
        """No more pauses between its steps."""
        (self.out / "hurry").touch()

    def stalls(self) -> list[tuple[int, int, float]]:
        """(workers before, workers after, seconds from the last step before to the first one after) of each resize."""
        ended: dict[int, tuple[float, int]] = {}
        for line in self.lasting():
            ended[line["step"]] = (line["at"], line["size"])  # the last worker's
        steps = [end for _, end in sorted(ended.items())]
        return [(a[1], b[1], b[0] - a[0]) for a, b in pairwise(steps) if a[1] != b[1]]

    def check_losses(self) -> None:
        """No jump: around a resize, the loss is what it was, within what it varies by anyway."""
        losses, lines = self.losses(), self.lasting()
        for before, after in pairwise(lines):
            if after["size"] != before["size"]:
                step = after["step"]
                left, right = losses[max(0, step - 30) : step], losses[step : step + 30]
                assert sum(right) / len(right) < 1.3 * sum(left) / len(left) + 0.05, f"the loss jumps at step {step}"

    def losses(self) -> list[float]:
        """The mean over the workers of each step."""
        steps: dict[int, list[float]] = {}
        for line in self.lasting():
            steps.setdefault(line["step"], []).append(line["loss"])
        return [sum(values) / len(values) for _, values in sorted(steps.items())]


@contextmanager
def serve(data: Path, horovod_env: Path) -> Iterator[Service]:
    """A service whose jobs all get as many GPUs as `resize` says: one at first."""
    env = {
        "SCHEDULEARN_POLICIES": json.dumps([f"{ROOT / 'tests/support/resizing.py'}:Sized"]),
        "SCHEDULEARN_ENVIRONMENTS": json.dumps({"horovod": str(horovod_env)}),
        "SCHEDULEARN_REPORT_INTERVAL": "1",
        "SCHEDULEARN_CHECKPOINT_INTERVAL": "2",
    }
    with Service(data, env=env) as service:
        resize(service, 1)
        yield service


def resize(served: Service, gpus: int) -> None:
    answer = served.http.put("/api/v1/policy", json={"algorithm": "sized", "params": {"gpus": gpus}})
    assert answer.status_code == 200, answer.text


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come within {seconds} s"
        time.sleep(0.002)


def last_attempt(job: Training) -> int:
    return max((line["attempt"] for line in job.lines()), default=0)


def environments(job_id: str) -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                found = (entry / "environ").read_bytes()
                if f"SCHEDULEARN_JOB_ID={job_id}".encode() in found:
                    yield int(entry.name), found


def processes_of(job_id: str) -> list[int]:
    return [pid for pid, _ in environments(job_id)]


def worker_of(job_id: str, rank: int) -> int:
    return _process_with(job_id, f"HOROVOD_RANK={rank}")


def member_of(job_id: str, number: int) -> int:
    """Of a job that is resized in place."""
    return _process_with(job_id, f"SCHEDULEARN_MEMBER={number}")


def _process_with(job_id: str, variable: str) -> int:
    """The process that the script runs in; waits until there is one."""
    found: list[int] = []

    def find() -> list[int]:
        nonlocal found
        mine = [pid for pid, env in environments(job_id) if variable.encode() in env.split(b"\0")]
        found = [pid for pid in mine if SCRIPT.name.encode() in _command(pid) and b"shim" not in _command(pid)]
        return found

    wait_until(find, f"a process with {variable}")
    assert len(found) == 1, found
    return found[0]


def _command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
