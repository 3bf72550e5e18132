"""Real training by the frameworks' adapters, under the real service: resized twice and killed once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from environments import Python
from services import Service
from training import ROOT, Training, kill, last_attempt, processes_of, resize, serve, wait_until

EPOCHS = 8
STEPS = 23  # of an epoch: 1437 samples in batches of 64
SCRIPTS = {
    "lightning": "accuracy",
    "transformers": "eval_accuracy",
    "ddp": "accuracy",
    "fsdp": "accuracy",
    "accelerate": "accuracy",
}
"""Framework -> its metric of the test data."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.horovod,
    pytest.mark.skipif(
        not os.environ.get("SCHEDULEARN_TEST_TRAINING"),
        reason="ADAPTERS ARE NOT tested here: training by frameworks takes minutes. Run `make test-training`",
    ),
]


@dataclass(frozen=True)
class Result:
    accuracy: float
    weights: float
    epochs: int
    steps: int


def result(log: str) -> Result:
    found = re.findall(r"final accuracy ([0-9.]+) weights ([0-9.]+) epochs (\d+) steps (\d+)", log)
    assert found, log[-4000:]
    accuracy, weights, epochs, steps = found[-1]
    return Result(float(accuracy), float(weights), int(epochs), int(steps))


@pytest.fixture
def served(tmp_path: Path, horovod_env: Path) -> Iterator[Service]:
    with serve(tmp_path / "data", horovod_env) as service:
        yield service


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SCRIPTS)
def test_training_that_is_resized_twice_and_killed_once_learns_the_same(
    served: Service, tmp_path: Path, horovod_env: Path, frameworks: str, name: str
) -> None:
    script = ROOT / f"tests/worker/script_{name}.py"
    python = Python(horovod_env, tmp_path, frameworks)
    plain = []
    for seed in range(3):
        flags = ["alone", str(tmp_path), "--plain", "--epochs", str(EPOCHS), "--seed", str(seed)]
        plain.append(result(python.run("alone", 1, str(script), *flags)))
    unresized = result(python.run("torchrun", 2, str(script), "torchrun", str(tmp_path), "--epochs", str(EPOCHS)))

    env = {"PYTHONPATH": frameworks}
    flags = f"--epochs {EPOCHS} --pause 0.4"
    job = Training(served, tmp_path / "job", "torchrun", flags, script=script, env=env)
    for size in (1, 2, 1):
        resize(served, size)
        job.wait_for(size)
    checkpoints = served.data / "checkpoints" / job.id
    wait_until(lambda: list(checkpoints.glob("*.json")), "a checkpoint")
    assert bool(list(checkpoints.glob("*.shards/*.distcp"))) == (name == "fsdp")
    kill(*processes_of(job.id))
    wait_until(lambda: last_attempt(job) == 4, "the fourth attempt", seconds=120)
    job.hurry()
    job.finish()

    found = result(served.logs(job.id))
    print(f"{name}: plain {plain}, unresized {unresized}, resized and killed {found}")
    # All steps, each with its samples, whoever computed them: the same weights, within rounding.
    assert (found.epochs, found.steps) == (EPOCHS, EPOCHS * STEPS)
    job.check_samples(EPOCHS)
    job.check_losses()
    assert found.weights == pytest.approx(unresized.weights, rel=1e-3)
    accuracies = [each.accuracy for each in plain]
    assert min(accuracies) - 0.005 <= found.accuracy <= max(accuracies) + 0.005  # 2 of 360 samples
    tasks = served.job(job.id)["tasks"]
    assert [task["exit_code"] for task in tasks[:2]] == [75, 75]
    assert (tasks[2]["exit_code"] in (137, None), tasks[3]["exit_code"], len(tasks)) == (True, 0, 4)
    profile = served.http.get(f"/api/v1/jobs/{job.id}/profile").json()
    assert (profile["progress"]["epochs"], profile["progress"]["steps"]) == (EPOCHS, EPOCHS * STEPS)
    assert {"loss", SCRIPTS[name]} <= set(profile["metrics"])
    assert {each["num_gpus"] for each in profile["observations"]} == {1, 2}
