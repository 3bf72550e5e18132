"""The SDK with a real MXNet under Horovod, in the environment that jobs run in."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import Python, epochs_of, final
from reports import ReportTaker

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "worker_images/examples/digits_mxnet"
SCRIPT = str(HERE / "script_mxnet.py")

pytestmark = [
    pytest.mark.long,
    pytest.mark.horovod,
    pytest.mark.skipif(
        not os.environ.get("SCHEDULEARN_TEST_TRAINING"),
        reason="MXNET IS NOT tested here: its environment takes minutes to build. Run `make test-training`",
    ),
]


@pytest.fixture
def python(environment_of: Callable[[str], Path], tmp_path: Path) -> Python:
    return Python(environment_of("mxnet"), tmp_path)


def test_measuring_does_not_change_what_is_learnt(python: Python) -> None:
    script = [SCRIPT, str(python.folder), "--epochs", "2"]
    plain = epochs_of(python.run("horovod", 2, *script))
    measured = epochs_of(python.run("horovod", 2, *script, **python.job))
    assert [epoch for epoch, _ in plain] == [0, 1]
    assert measured[-1][1] == pytest.approx(plain[-1][1], rel=1e-4)


def test_a_stopped_job_goes_on_with_other_workers_and_sees_each_sample_once_an_epoch(python: Python) -> None:
    script = [SCRIPT, str(python.folder), "--epochs", "3"]
    output = python.stop("horovod", 2, *script, "--pause", "0.05", after=30, **python.job)
    assert "with a checkpoint" in output
    output = python.run("horovod", 3, *script, **python.job, SCHEDULEARN_ATTEMPT="2")
    assert "with 3 workers" in output
    assert [epoch for epoch, _ in epochs_of(output)] == [1, 2]
    seen: dict[int, Counter[int]] = {}
    for file in python.folder.glob("seen-*.jsonl"):
        for line in map(json.loads, file.read_text().splitlines()):
            if line["weight"] > 0:
                seen.setdefault(line["epoch"], Counter()).update(line["seen"])
    missing = {epoch: set(range(1437)) - set(counts) for epoch, counts in seen.items()}
    # The step that was interrupted was made, but the script did not come to write it down.
    assert sum(len(left) for left in missing.values()) <= 64
    assert all(set(counts.values()) == {1} for counts in seen.values())
    assert sorted(seen) == [0, 1, 2]


def test_the_batch_adapts_and_reports_tell_progress_step_times_and_metrics(python: Python) -> None:
    taker = ReportTaker()
    told = {"SCHEDULEARN_REPORT_URL": taker.url, "SCHEDULEARN_JOB_TOKEN": "j.x", "SCHEDULEARN_REPORT_INTERVAL": "0.5"}
    script = [SCRIPT, str(python.folder), "--epochs", "4", "--pause", "0.02"]
    bounds = {"SCHEDULEARN_BATCH_SIZE": "32", "SCHEDULEARN_MAX_BATCH_SIZE": "256"}
    output = python.run("horovod", 2, *script, **python.job, **told, **bounds)
    taker.close()
    bodies = [body for _, _, body in taker.bodies]
    progress = {"epoch": 4, "epochs": 4, "position": 0, "steps": final(output)["step"], "epoch_samples": 1437}
    assert bodies[-1]["progress"] == progress
    assert (bodies[-1]["batch"]["init"], bodies[-1]["batch"]["max"]) == (32, 256)
    seen = [each for body in bodies for each in body["observations"]]
    assert {(each["num_gpus"], each["num_nodes"]) for each in seen} == {(2, 1)}
    assert 16 in {each["atomic_batch"] for each in seen}
    assert all(0.02 < each["grad_time"] < each["iter_time"] < 10 for each in seen)
    assert Counter(metric["name"] for body in bodies for metric in body["metrics"]) == {"loss": 4, "accuracy": 4}


@pytest.mark.parametrize(("kind", "workers"), [("horovod", 2), ("alone", 1)])
def test_the_noise_scale_is_what_all_gradients_together_say(python: Python, kind: str, workers: int) -> None:
    script = [SCRIPT, str(python.folder), "--frozen", "--epochs", "12"]
    found = final(python.run(kind, workers, *script, **python.job))
    assert abs(found["phi"] / found["offline"] - 1) < 0.2, found


@pytest.mark.parametrize("script", ["train.py", "train_sdk.py"])
def test_the_examples_learn(python: Python, script: str) -> None:
    output = python.run("horovod", 2, str(EXAMPLE / script))
    assert float(re.findall(r"final test accuracy ([0-9.]+)", output)[0]) >= 0.95
