"""From factors and a design to the runs of a sweep."""

from collections import Counter
from typing import Any

import pytest
from pydantic import ValidationError

from schedulearn.features.sweeps.experiment_spec import ExperimentSpec
from schedulearn.features.sweeps.spec import runs_of

JOB = {"type": "Pytorch", "container_image": "img", "command": "train --lr {lr} --depth {depth}", "required_gpus": 1}
FACTORS = {"lr": [0.1, 0.01], "depth": [2, 4]}


def spec(**fields: Any) -> ExperimentSpec:
    return ExperimentSpec.model_validate({"name": "e", "job": JOB, "factors": FACTORS, **fields})


def runs(**fields: Any) -> list[dict[str, Any]]:
    return list(runs_of(spec(**fields).sweep()))


def test_every_combination_is_tried_as_often_as_asked_in_a_shuffled_order_that_stays() -> None:
    found = runs(replications=3)
    counted = Counter((run["lr"], run["depth"]) for run in found)
    assert counted == {(lr, depth): 3 for lr in (0.1, 0.01) for depth in (2, 4)}
    assert found == runs(replications=3), "the same seed gives the same order"
    assert found != runs(replications=3, seed=1)
    given = runs(replications=2, order="given")
    assert given[:4] == given[4:]
    assert given[0] == {"lr": 0.1, "depth": 2}


def test_2k_has_two_levels_a_factor() -> None:
    assert len(runs(design="2k")) == 4
    with pytest.raises(ValidationError, match="two levels per factor, not 3"):
        spec(design="2k", factors={"lr": [1, 2, 3], "depth": [1, 2]})


def test_a_grid_cuts_spans_into_levels() -> None:
    spans = {"lr": {"min": 0.001, "max": 0.1, "scale": "log", "levels": 3}, "depth": {"min": 1, "max": 4, "levels": 4}}
    found = runs(design="grid", factors=spans, order="given")
    assert [run["lr"] for run in found[::4]] == [0.001, 0.01, 0.1]
    assert [run["depth"] for run in found[:4]] == [1, 2, 3, 4]
    with pytest.raises(ValidationError, match="needs `levels`"):
        spec(design="grid", factors={"lr": {"min": 1, "max": 2}, "depth": [1]})


def test_random_points_are_drawn_by_the_seed_and_replicated() -> None:
    fields = {"design": "random", "count": 5, "factors": {"lr": {"min": 0.0, "max": 1.0}, "depth": [2, 4]}}
    found = runs(**fields, replications=2)
    assert len(found) == 10
    assert set(Counter(run["lr"] for run in found).values()) == {2}
    assert found == runs(**fields, replications=2)
    assert found != runs(**fields, replications=2, seed=7)


def test_the_number_of_the_replication_can_be_the_seed_of_a_run() -> None:
    job = {**JOB, "command": "train --lr {lr} --depth {depth} --seed {replication}"}
    found = runs(job=job, replications=2, order="given")
    assert [run["replication"] for run in found] == [1] * 4 + [2] * 4
    assert "replication" not in runs(replications=2)[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"factors": {"lr": [0.1], "dpeth": [1]}}, "nothing uses the parameter 'dpeth'"),
        ({"factors": {"lr": [0.1, 0.1], "depth": [1]}}, "is there twice"),
        ({"factors": {"lr": {"min": 0, "max": 1}, "depth": [1]}}, "needs a list of levels"),
        ({"factors": {"lr": [0.1], "depth": [1], "replication": [1]}}, "invalid factor name replication"),
        ({"design": "random"}, "count is the number of points"),
        ({"count": 3}, "count is the number of points"),
        ({"factors": {"lr": [*range(200)], "depth": [*range(200)]}}, "at most 10000 runs, not 40000"),
        ({"factors": {}}, "at least 1 item"),
        ({"job": {**JOB, "name": "x"}}, "leave the name of the job out"),
        ({"more": 1}, "Extra inputs"),
    ],
)
def test_what_can_be_no_experiment_is_told_why(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        spec(**fields)
