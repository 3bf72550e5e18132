"""The SDK with a real PyTorch, Horovod and torchrun, in the environment that jobs run in."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from environments import Python

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "worker_images/examples"

pytestmark = [
    pytest.mark.long,
    pytest.mark.horovod,
    pytest.mark.skipif(
        not os.environ.get("SCHEDULEARN_TEST_TRAINING"),
        reason="NOT tested here: noise scales of real training take minutes. Run `make test-training`",
    ),
]


@pytest.fixture
def python(horovod_env: Path, tmp_path: Path) -> Python:
    return Python(horovod_env, tmp_path)


@pytest.mark.parametrize(("kind", "workers", "batch"), [("alone", 1, 16), ("horovod", 2, 32), ("torchrun", 2, 32)])
def test_the_noise_scale_is_what_all_gradients_together_say(
    python: Python, kind: str, workers: int, batch: int
) -> None:
    output = python.run(kind, workers, str(HERE / "noise.py"), kind, str(batch), **python.job)
    found = json.loads(output[output.index("{") :])
    assert found["workers"] == workers
    assert abs(found["measured"] / found["offline"] - 1) < 0.2, found


def final(output: str) -> dict[str, Any]:
    epochs = re.findall(r"epoch (\d+) accuracy ([0-9.]+) weights ([0-9.]+)", output)
    return {"epochs": [int(epoch) for epoch, _, _ in epochs], "weights": float(epochs[-1][2])}


@pytest.mark.parametrize("kind", ["horovod", "torchrun"])
def test_measuring_does_not_change_what_is_learnt(python: Python, kind: str) -> None:
    """Outside Schedulearn, inside, and alone with the whole batch: the same steps, within rounding."""
    script = [str(HERE / "script.py"), kind, str(python.folder), "--epochs", "2", "--momentum", "0"]
    plain = final(python.run(kind, 2, *script))
    measured = final(python.run(kind, 2, *script, **python.job))
    assert plain["epochs"] == measured["epochs"] == [0, 1]
    assert measured["weights"] == pytest.approx(plain["weights"], rel=2e-3)
    assert not (python.folder / "checkpoints").joinpath("nothing").exists()


def test_outside_schedulearn_nothing_is_written_and_the_optimizer_is_horovods_own(python: Python) -> None:
    code = (
        "import horovod.torch as hvd, torch, signal; hvd.init(); import schedulearn.worker.torch as w; "
        "m = torch.nn.Linear(2, 2); run = w.Run(4, 64); "
        "o = run.optimizer(torch.optim.SGD(m.parameters(), lr=1), m); "
        "assert 'step' not in vars(o) and run.instruments is None and run.scaling == 'adascale'; "
        "other = w.Run(4, 64); other.optimizer(torch.optim.Adam(m.parameters()), m); assert other.scaling == 'sqrt'; "
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL; run.log(loss=1.0); print(list(run.epochs(2)))"
    )
    assert "[0, 1]" in python.run("horovod", 1, "-c", code)
    assert not (python.folder / "checkpoints").exists()


def test_a_parameter_that_seldom_has_a_gradient_is_not_all_of_the_noise(python: Python) -> None:
    """Adam's second moment of a rare word's embedding is nearly 0 when it comes; that of an unused layer is 0."""
    code = (
        "import torch; from schedulearn.worker.torch.noise import TorchNoiseMeter\n"
        "words, unused = torch.nn.Parameter(torch.zeros(64, 2)), torch.nn.Parameter(torch.zeros(3))\n"
        "adam = torch.optim.Adam([words, unused])\n"
        "words.grad, unused.grad = torch.ones(64, 2), torch.zeros(3)\n"
        "for step in range(2000):\n"
        "    words.grad[63] = float(step == 0)\n"
        "    adam.step()\n"
        "meter = TorchNoiseMeter(16, adam)\n"
        "print([meter.norms(list(meter.conditioned([p], [torch.ones_like(p)]))) for p in (words, unused)])"
    )
    common, rare = json.loads(python.run("alone", 1, "-c", code).strip().splitlines()[-1])
    assert common == pytest.approx(126 + 2 * 100, rel=0.02)  # 12,906 before
    assert rare == 0


def test_workers_end_the_longer_epochs_of_a_larger_batch_together(python: Python) -> None:
    """They would wait for each other for ever otherwise."""
    script = str(HERE.parents[1] / "bench/training/accuracy_train.py")
    output = python.run("horovod", 2, script, "digits", "sgd", "1024", "12", "0", SCHEDULEARN_JOB_ID="j")
    found = json.loads(output[output.index('{"seed"') :].splitlines()[0])
    assert max(total for _, total, _ in found["batches"]) > 64, "it never grew: nothing is tested"
    assert 1.02 < found["passes"] < 2
    assert found["accuracy"] > 0.9


@pytest.mark.parametrize(
    ("example", "kind", "flags"),
    [
        ("digits/train_sdk.py", "horovod", ["--epochs", "1"]),
        ("text/train_sdk.py", "horovod", ["--epochs", "1", "--batch-size", "512", "--max-batch", "512"]),
        ("text/train.py", "horovod", ["--epochs", "1", "--batch-size", "256"]),
        ("resnet/train_sdk.py", "torchrun", ["--epochs", "1", "--samples", "256", "--width", "8"]),
        ("resnet/train.py", "torchrun", ["--epochs", "1", "--samples", "256", "--width", "8"]),
    ],
)
def test_the_examples_run_without_schedulearn(python: Python, example: str, kind: str, flags: list[str]) -> None:
    assert re.search(r"epoch 1/1: loss \d", python.run(kind, 2, str(EXAMPLES / example), *flags))


def test_a_corrupt_checkpoint_falls_back_to_the_one_before(python: Python) -> None:
    script = [str(HERE / "script.py"), "alone", str(python.folder)]
    env = {**python.job, "SCHEDULEARN_CHECKPOINT_INTERVAL": "0"}
    python.run("alone", 1, *script, "--epochs", "2", "--pause", "0.03", **env)
    first, second = sorted((python.folder / "checkpoints").glob("*.data"))[-2:]
    second.write_bytes(second.read_bytes()[:-100])
    output = python.run("alone", 1, *script, "--epochs", "3", **env)
    step = int(re.findall(r"step-(\d+)", first.name)[0])
    assert f"step {step}, with 1 workers" in output
    assert final(output)["epochs"][-1] == 2
