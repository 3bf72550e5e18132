"""Steps of several passes: for a script's code they are steps of one pass (docs/adapt-your-script.md)."""

import json
from pathlib import Path
from typing import Any

import pytest
from environments import Python

SCRIPT = str(Path(__file__).parent / "script_accumulation.py")


@pytest.mark.horovod
@pytest.mark.parametrize(
    ("kind", "workers", "max_local", "passes", "as_a_job"),
    [
        ("alone", 1, 32, 2, True),
        ("alone", 1, 13, 5, False),
        ("torchrun", 2, 7, 5, True),
        pytest.param("horovod", 2, 7, 5, True, marks=pytest.mark.long),
    ],
)
def test_steps_of_several_passes_are_steps_of_one(
    horovod_env: Path, tmp_path: Path, kind: str, workers: int, max_local: int, passes: int, as_a_job: bool
) -> None:
    """The last step of an epoch has 10 samples of 64."""
    found = compared(Python(horovod_env, tmp_path), kind, workers, max_local, 64, 330, as_a_job=as_a_job)
    assert len(found) >= 12
    assert {(each["steps"], each["passes"]) for each in found} == {(12, passes)}


@pytest.mark.horovod
@pytest.mark.parametrize(
    ("max_local", "batch", "samples", "steps", "passes"),
    [
        pytest.param(1, 3, 31, 20, 2, id="a worker has a sample and two passes"),
        pytest.param(32, 64, 321, 10, 1, id="only the last step takes two passes"),
    ],
)
def test_steps_whose_samples_do_not_fill_their_passes_count_each_once(
    horovod_env: Path, tmp_path: Path, max_local: int, batch: int, samples: int, steps: int, passes: int
) -> None:
    cases = ("plain", "clip by norm", "GradScaler", "averages")
    found = compared(Python(horovod_env, tmp_path), "torchrun", 2, max_local, batch, samples, *cases)
    assert {(each["steps"], each["passes"]) for each in found} == {(steps, passes)}


def compared(
    python: Python, kind: str, workers: int, max_local: int, batch: int, samples: int, *cases: str,
    as_a_job: bool = True,
) -> list[dict[str, Any]]:  # fmt: skip
    """Cases of the script, each of which agrees with plain PyTorch."""
    numbers = map(str, (max_local, batch, samples))
    output = python.run(kind, workers, SCRIPT, kind, *numbers, *cases, **(python.job if as_a_job else {}))
    found = [json.loads(line[line.index('{"case"') :]) for line in output.splitlines() if '{"case"' in line]
    assert len(found) >= len(cases)
    assert {each["case"]: each["apart"] for each in found if not each["apart"] < 1e-5} == {}
    return found


CHECKPOINTS = """
import torch, schedulearn.worker.torch as worker

def trained():
    model = torch.nn.Linear(2, 2)
    run = worker.Run(4)
    optimizers = [torch.optim.SGD([model.weight], lr=0.1, momentum=0.9), torch.optim.Adam([model.bias])]
    optimizers = [run.optimizer(each, model) for each in optimizers]
    model(torch.ones(1, 2)).square().sum().backward()
    return run, [each.step() or each for each in optimizers]

(run, optimizers), (other, others) = trained(), trained()
moments = lambda sgd, adam: [sgd.state[sgd.param_groups[0]["params"][0]]["momentum_buffer"].tolist(),
                             adam.state[adam.param_groups[0]["params"][0]]["exp_avg"].tolist()]
assert moments(*optimizers) != moments(*others)
other.apply(run.capture())
print(moments(*optimizers) == moments(*others))
run, optimizers = trained()
other.apply({"states": {}, "optimizer": optimizers[0].state_dict()})
print(moments(*optimizers)[0] == moments(*others)[0])
"""


@pytest.mark.horovod
def test_checkpoints_hold_all_optimizers_and_older_ones_the_first(horovod_env: Path, tmp_path: Path) -> None:
    python = Python(horovod_env, tmp_path)
    assert python.run("alone", 1, "-c", CHECKPOINTS, **python.job).split() == ["True", "True"]
