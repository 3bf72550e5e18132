"""From a sweep as it is written to the jobs of its runs."""

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schedulearn.features.sweeps.spec import MAX_RUNS, MAX_TEXT, Span, SweepSpec, extremes_of, job_of, runs_of
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.specs.job import JobSpec

JOB = {"type": "t", "container_image": "img", "command": "train --lr {lr}", "required_gpus": 1}

scalars = (
    st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
)
names = st.from_regex(r"p_[a-z_]{1,8}", fullmatch=True)


def sweep(job: dict[str, Any] | None = None, **fields: Any) -> SweepSpec:
    return SweepSpec.model_validate({"name": "s", "job": {**JOB, **(job or {})}, **fields})


def jobs(spec: SweepSpec) -> list[JobSpec]:
    return [job_of(spec.name, spec.job, number, params) for number, params in enumerate(runs_of(spec), 1)]


def for_names(found: list[str]) -> dict[str, str]:
    return {"command": " ".join(["train", *(f"--{name}={{{name}}}" for name in found)])}


@given(st.dictionaries(names, st.lists(scalars, min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_grid_tries_every_combination_once_in_order(grid: dict[str, list[Any]]) -> None:
    spec = sweep(for_names([*grid]), grid=grid)
    runs = list(runs_of(spec))
    assert len(runs) == spec.size
    expected: list[list[Any]] = [[]]
    for values in grid.values():
        expected = [[*before, value] for before in expected for value in values]
    assert [[*run.values()] for run in runs] == expected


@given(names, scalars)
def test_whatever_a_value_holds_it_stays_one_word_of_the_command(name: str, value: Any) -> None:
    spec = sweep({"command": f"train 'a b' --x {{{name}}} ${{{name}}}"}, list=[{name: value}])
    [job] = jobs(spec)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    assert shlex.split(job.command) == ["train", "a b", "--x", text, f"${{{name}}}"]


@given(
    st.integers(1, 200),
    st.integers(0, (1 << 63) - 1),
    st.tuples(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9)).map(sorted),
    st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)).map(sorted),
    st.sampled_from(["linear", "log"]),
    st.lists(scalars, min_size=1, max_size=5),
)
def test_random_runs_keep_their_bounds_and_come_again_by_their_seed(
    count: int, seed: int, floats: list[float], whole: list[int], scale: str, choices: list[Any]
) -> None:
    parameters = {
        "p_f": {"min": floats[0], "max": floats[1], "scale": scale},
        "p_i": {"min": whole[0], "max": whole[1], "scale": scale},
        "p_c": choices,
    }
    given_sweep = {"count": count, "seed": seed, "parameters": parameters}
    spec = sweep(for_names([*parameters]), random=given_sweep)
    runs = list(runs_of(spec))
    assert len(runs) == spec.size == count
    for run in runs:
        assert floats[0] <= run["p_f"] <= floats[1]  # type: ignore[operator]
        assert whole[0] <= run["p_i"] <= whole[1]  # type: ignore[operator]
        assert isinstance(run["p_i"], int)
        assert run["p_c"] in choices
    stored = json.loads(json.dumps(spec.model_dump(mode="json", exclude_none=True)))
    assert list(runs_of(SweepSpec.model_validate(stored))) == runs


def test_the_numbers_of_a_seed_are_those_of_every_version() -> None:
    span = {"min": 1e-5, "max": 0.1, "scale": "log"}
    spec = sweep(random={"count": 3, "seed": 7, "parameters": {"lr": span}})
    assert [run["lr"] for run in runs_of(spec)] == [0.000197393, 4.01233e-05, 0.00401548]


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.999999999])
def test_whole_numbers_are_drawn_with_both_ends(share: float) -> None:
    assert Span(min=1, max=4).at(share) == 1 + int(share * 4)


def test_parameters_fill_the_command_else_are_keys_else_variables() -> None:
    spec = sweep(
        {
            "command": "train --lr {lr} --weight {weight} {lr}",
            "env": {"KEEP": "1", "SEED": "9"},
            "batch_size": "nonsense",
        },
        list=[{"lr": 0.1, "weight": 3, "batch_size": 64, "env.SEED": 4, "env.FAST": True}],
    )
    [job] = jobs(spec)
    assert job.command == "train --lr 0.1 --weight 3 0.1"
    assert (job.weight, job.batch_size) == (1.0, 64), "what fills the command sets no key"
    assert job.env == {"KEEP": "1", "SEED": "4", "FAST": "true"}
    assert (job.name, spec.job["env"]) == ("s-1", {"KEEP": "1"})
    assert "batch_size" not in spec.job, "what a parameter replaces is not kept"


def test_a_value_that_looks_like_a_placeholder_is_not_filled_again() -> None:
    [job] = jobs(sweep(for_names(["a", "b"]), list=[{"a": "{b}", "b": "{a}"}]))
    assert shlex.split(job.command) == ["train", "--a={b}", "--b={a}"]


def test_jobs_of_a_sweep_over_arguments_are_one_family() -> None:
    assert len({job.family for job in jobs(sweep(grid={"lr": [0.1, 0.2, 0.3]}))}) == 1


LONG = "x" * 4000


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "give one of grid, random, list and search, not none"),
        ({"grid": {"lr": [1]}, "list": [{"lr": 1}]}, "not grid and list"),
        ({"grid": {}}, "at least 1 item"),
        ({"grid": {"lr": []}}, "at least 1 item"),
        ({"list": [{}]}, "the runs have no parameters"),
        ({"list": [{"lr": 1}, {"b": 1}]}, "run 2 differs from run 1 in b, lr"),
        ({"grid": {"lr": [1] * 101, "seed": [1] * 100}}, f"at most {MAX_RUNS} runs, not 10100"),
        ({"grid": {"lr": [LONG] * (MAX_TEXT // 4000 + 2)}}, "more than 2 MiB"),
        ({"grid": {"batchsize": [1]}}, "nothing uses the parameter 'batchsize'; did you mean 'batch_size'?"),
        ({"grid": {"lrr": [1]}}, "nothing uses the parameter 'lrr'"),
        ({"grid": {"user": ["eve"]}}, "nothing uses the parameter 'user'"),
        ({"grid": {"l r": [1]}}, "invalid parameter name"),
        ({"grid": {"env.API_KEY": ["x"]}}, "may be a secret"),
        ({"grid": {"lr": [None]}}, "must be true, false, a finite number, or text"),
        ({"grid": {"lr": [[1]]}}, "must be true, false, a finite number, or text"),
        ({"grid": {"lr": [float("nan")]}}, "must be true, false, a finite number, or text"),
        ({"grid": {"lr": ["x" * 5000]}}, "must be true, false, a finite number, or text"),
        ({"random": {"count": 2, "parameters": {"lr": {"min": 2, "max": 1}}}}, "greater than max"),
        ({"random": {"count": 2, "parameters": {"lr": {"min": 0, "max": 1, "scale": "log"}}}}, "min above 0"),
        ({"random": {"count": 0, "parameters": {"lr": [1]}}}, "greater than or equal to 1"),
        ({"grid": {"lr": [1]}, "max_parallel": 0}, "greater than or equal to 1"),
        ({"grid": {"lr": [1]}, "max_failures": -1}, "greater than or equal to 0"),
        ({"grid": {"lr": [1]}, "job": {**JOB, "name": "x"}}, "leave the name of the job out"),
        ({"search": "tpe", "grid": {"lr": [1]}}, "not grid and search"),
        ({"search": "tpe", "trials": 9}, "a search needs parameters"),
        ({"search": "tpe", "parameters": {"lr": [1]}}, "search: tpe needs trials"),
        ({"search": "random", "parameters": {"lr": [1]}}, "search: random needs trials"),
        ({"search": "tpe", "trials": 1001, "parameters": {"lr": [1]}}, "at most 1000 trials, not 1001"),
        ({"search": "tpe", "trials": 9, "parameters": {"lr": [1, 2, 1]}}, "the choices of lr repeat"),
        ({"search": "tpe", "trials": 1000, "parameters": {"lr": [LONG]}}, "more than 2 MiB"),
        ({"search": "tpe", "trials": 9, "parameters": {"lr": [*range(1001)]}}, "at most 1000 choices"),
        ({"search": "tpe", "trials": 1, "parameters": {"lr": [*range(1000)]},
          "job": {**JOB, "command": "{lr}" + "x" * 70_000}}, "more than 64 MiB of text"),
        ({"search": "cmaes", "trials": 9, "parameters": {"lr": {"min": 1, "max": 2}}}, "two ranges of numbers"),
        ({"search": "grid", "trials": 9, "parameters": {"lr": [1]}}, "leave trials out"),
        ({"search": "grid", "parameters": {"lr": {"min": 0.5, "max": 1}}}, "give a list, or a step"),
        ({"search": "grid", "parameters": {"lr": {"min": 1, "max": 1e99, "step": 1e-9}}}, "try a larger step"),
        ({"search": "grid", "parameters": {"lr": {"min": 1, "max": 20_000}}}, "at most 10000 runs"),
        ({"search": "tpe", "trials": 9, "parameters": {"lr": {"min": 1, "max": 9, "step": 0}}}, "greater than 0"),
        ({"search": "tpe", "trials": 9, "parameters": {"lr": {"min": 1, "max": 9, "step": 0.5}}}, "a whole number"),
        ({"search": "tpe", "trials": 9, "parameters": {"lr": {"min": 0.5, "max": 9, "type": "int"}}}, "whole numbers"),
        ({"search": "tpe", "trials": 9, "parameters": {"lr": {"min": 1, "max": 9, "scale": "log", "step": 1}}},
         "has no step"),
        ({"search": "tpe", "trials": 9, "parameters": {"l": [1]}}, "nothing uses the parameter 'l'"),
        ({"search": "pbt", "trials": 9, "parameters": {"lr": [1]}}, "'grid', 'random', 'tpe' or 'cmaes'"),
        ({"grid": {"lr": [1]}, "trials": 9}, "trials belongs to a search"),
        ({"grid": {"lr": [*range(1001)]}, "prune": "asha"}, "at most 1000 runs, not 1001"),
        ({"grid": {"lr": [1]}, "prune": {"method": "median", "factor": 3}}, "prune: median has no factor"),
        ({"grid": {"lr": [1]}, "goal": {"metric": "a"}, "metric": {"name": "b"}}, "goal and metric mean the same"),
        ({"grid": {"lr": [1]}, "parallel": 2, "max_parallel": 2}, "parallel and max_parallel mean the same"),
    ],
)  # fmt: skip
def test_a_sweep_that_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        SweepSpec.model_validate({"name": "s", "job": JOB, **fields})
    assert words in str(refused.value)


def test_a_search_is_stored_in_one_form() -> None:
    spec = sweep(
        search="tpe", trials=30, parallel=4, prune="asha", goal={"metric": "val_acc", "mode": "max"},
        parameters={"lr": {"min": 1e-5, "max": 0.1, "scale": "log"}},
    )  # fmt: skip
    stored = spec.model_dump(mode="json", exclude_none=True)
    assert stored["metric"] == {"name": "val_acc", "goal": "max"}
    assert (stored["max_parallel"], stored["prune"]) == (4, {"method": "asha"})
    assert not {"goal", "parallel"} & stored.keys()
    assert SweepSpec.model_validate(stored) == spec
    assert (spec.size, len(list(runs_of(spec)))) == (30, 8), "the others depend on results"
    assert sweep(grid={"lr": [1]}, prune="none").prune is None


def test_a_search_checks_the_ends_of_its_ranges_and_all_choices() -> None:
    parameters = {"lr": {"min": 1, "max": 9, "step": 3}, "batch_size": [8, 16]}
    spec = sweep(search="tpe", trials=30, parameters=parameters)
    tried = list(extremes_of(spec))
    assert [run["lr"] for run in tried[:2]] == [1, 7]
    assert [run["batch_size"] for run in tried[2:]] == [8, 16]
    assert list(extremes_of(sweep(grid={"lr": [1, 2]}))) == []


def test_a_grid_of_a_search_counts_its_ranges() -> None:
    parameters = {"lr": {"min": 0.1, "max": 0.5, "step": 0.2}, "depth": {"min": 1, "max": 2}, "kind": ["a"]}
    spec = sweep(for_names(["lr", "depth", "kind"]), search="grid", parameters=parameters)
    assert [[*run.values()] for run in runs_of(spec)] == [[lr, d, "a"] for lr in (0.1, 0.3, 0.5) for d in (1, 2)]


def test_random_runs_of_a_search_are_those_of_their_seed() -> None:
    span = {"min": 1e-5, "max": 0.1, "scale": "log"}
    spec = sweep(search="random", trials=3, seed=7, parameters={"lr": span})
    assert [run["lr"] for run in runs_of(spec)] == [0.000197393, 4.01233e-05, 0.00401548]


@pytest.mark.parametrize(
    ("job", "grid", "field", "words"),
    [
        ({}, {"batch_size": [8, 0]}, "batch_size", "run 2: batch_size = 0: must be at least 1"),
        ({"max_gpu": 2}, {"lr": [1]}, "job.max_gpu", "run 1: max_gpu: there is no such key; did you mean 'max_gpus'?"),
        ({"command": "'{lr}"}, {"lr": [1]}, "command", "can't be split into words"),
        ({"command": 7}, {"epochs": [1]}, "job.command", "run 1: command: must be text"),
        ({"env": 7}, {"env.A": [1]}, "job.env", "run 1: env: must be an object"),
        ({}, {"lr": [1], "env.NVIDIA_X": [1]}, "job.env", "can't be set by a job"),
    ],
)  # fmt: skip
def test_a_run_whose_job_is_wrong_is_named(job: dict[str, Any], grid: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InvalidError) as refused:
        jobs(sweep(job, grid=grid))
    assert words in refused.value.detail
    assert refused.value.field == field
