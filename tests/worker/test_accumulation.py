"""Steps of several passes: for a script's code they are steps of one pass (docs/adapt-your-script.md)."""

import json
from pathlib import Path

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
    python = Python(horovod_env, tmp_path)
    output = python.run(kind, workers, SCRIPT, kind, str(max_local), **(python.job if as_a_job else {}))
    found = [json.loads(line[line.index('{"case"') :]) for line in output.splitlines() if '{"case"' in line]
    assert len(found) >= 12
    assert {(each["steps"], each["passes"]) for each in found} == {(12, passes)}
    assert {each["case"]: each["apart"] for each in found if not each["apart"] < 1e-5} == {}


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
