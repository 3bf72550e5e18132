"""`import determined`: sweeps of Determined's experiment configurations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from services import invoke

from schedulearn.features.slurm.determined import from_determined
from schedulearn.features.sweeps.spec import Prune, SweepSpec, runs_of

ADAPTIVE = """
name: mnist_adaptive
entrypoint: python3 train.py --data '/my data'
project: vision
max_restarts: 0
profiling: {enabled: true}
resources: {slots_per_trial: 2, max_slots: 8}
environment:
  image: {cpu: a/cpu, cuda: a/cuda}
  environment_variables: [SEED=1]
hyperparameters:
  global_batch_size: 64
  optimizer:
    type: categorical
    vals: [sgd, adam]
  net:
    depth: {type: int, minval: 2, maxval: 6}
    dropout: {type: double, minval: 0, maxval: 1}
  lr: {type: log, base: 10, minval: -5, maxval: -1}
searcher:
  name: adaptive_asha
  metric: accuracy
  smaller_is_better: false
  max_trials: 50
  max_rungs: 4
"""


def config(**changes: Any) -> dict[str, Any]:
    return {**yaml.safe_load(ADAPTIVE), **changes}


def test_an_adaptive_configuration_becomes_a_search_that_is_pruned_by_asha() -> None:
    made = from_determined(config())
    spec = SweepSpec.model_validate(made.found)
    assert (spec.search, spec.trials, spec.prune) == ("random", 50, Prune(method="asha", factor=4))
    assert (spec.metric.name, spec.metric.goal, spec.max_parallel) == ("accuracy", "max", 16)
    assert spec.job == {
        "command": "python3 train.py --data '/my data' --global_batch_size=64 --optimizer={optimizer} "
        "--net_depth={net_depth} --net_dropout={net_dropout} --lr={lr}",
        "required_gpus": 2, "container_image": "a/cuda", "env": {"SEED": "1"}, "max_restarts": 0,
        "labels": {"project": "vision"},
    }  # fmt: skip
    for run in runs_of(spec):
        assert 1e-5 <= float(str(run["lr"])) <= 0.1
        assert run["net_depth"] in range(2, 7)
        assert isinstance(run["net_dropout"], float)
        assert run["optimizer"] in ("sgd", "adam")
    assert [note for note in made.notes if note.endswith("not translated")] == [
        "profiling: not translated", "resources.max_slots: not translated", "searcher.max_rungs: not translated",
    ]  # fmt: skip


def test_a_grid_has_the_levels_of_its_counts() -> None:
    parameters = {"lr": {"type": "log", "minval": -3, "maxval": -1, "count": 3}, "depth": {"type": "int", "minval": 1,
                  "maxval": 2}}  # fmt: skip
    made = from_determined(config(searcher={"name": "grid"}, hyperparameters=parameters))
    spec = SweepSpec.model_validate(made.found)
    assert [[*run.values()] for run in runs_of(spec)] == [[lr, depth] for lr in (0.001, 0.01, 0.1) for depth in (1, 2)]


def test_a_single_run_becomes_a_job() -> None:
    made = from_determined(
        config(searcher={"name": "single"}, hyperparameters={"lr": 0.1}, entrypoint=["python", "a b"])
    )
    assert (made.found["name"], made.found["command"]) == ("mnist_adaptive", "python 'a b' --lr=0.1")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"searcher": {"name": "custom"}}, "searcher.name: can't convert 'custom'"),
        ({"searcher": {"name": "random"}}, "searcher.max_trials: must be a whole number"),
        ({"searcher": 3}, "searcher: must be an object"),
        ({"entrypoint": None}, "entrypoint: must be a command"),
        ({"hyperparameters": {"a b": 1}}, "hyperparameters.a b: invalid name"),
        ({"hyperparameters": {"lr": {"type": "gauss"}}}, "unknown type 'gauss'"),
        ({"hyperparameters": {"lr": {"type": "int", "minval": "x", "maxval": 1}}}, "must be numbers"),
        ({"hyperparameters": {"lr": {"type": "int", "minval": 0, "maxval": float("inf")}}}, "finite numbers"),
        ({"hyperparameters": {"lr": {"type": "log", "minval": 0, "maxval": 9999}}}, "no finite number"),
        ({"searcher": {"name": "grid"}, "hyperparameters": {"lr": {"type": "double", "minval": 0, "maxval": 1}}},
         "hyperparameters.lr.count: must be a whole number"),
        ({"searcher": {"name": "single"}}, "searcher single takes no ranges"),
    ],
)  # fmt: skip
def test_what_can_not_be_converted_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        from_determined(config(**changes))
    assert words in str(refused.value)


def test_the_command_prints_a_sweep_and_lists_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "adaptive.yaml"
    file.write_text(ADAPTIVE)
    made = invoke("import", "determined", str(file))
    assert SweepSpec.model_validate(yaml.safe_load(made.out)).trials == 50
    assert "schedulearn: profiling: not translated" in made.err
    assert json.loads(invoke("import", "determined", "--json", str(file)).out)["search"] == "random"
    assert invoke("import", "determined", "--strict", str(file), code=1).out == ""
    assert "one object" in invoke("import", "determined", "-", stdin="- 1", code=2).err
