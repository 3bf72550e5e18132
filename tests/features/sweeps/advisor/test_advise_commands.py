"""`schedulearn advise`, with real runs and with simulated ones."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from apis import run_experiment, serve_api
from services import IMAGE, Result, Service, invoke

JOB = f"""
container_image: {IMAGE}
launcher: none
type: Pytorch
required_gpus: 1
command: sh -c 'exec sleep 0.$((8 / SCHEDULEARN_NUM_GPUS))'
"""
EXPERIMENT: dict[str, Any] = {
    "name": "naps", "job": {key: value for key, value in yaml.safe_load(JOB).items() if key != "required_gpus"},
    "factors": {"required_gpus": [1, 2, 4], "batch_size": [32, 64]}, "replications": 2,
}  # fmt: skip
Advise = Callable[..., Result]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = tmp_path_factory.mktemp("settings") / "settings.yaml"
    settings.write_text("gpu_prices: {'*': 3600}\n")
    with Service(tmp_path_factory.mktemp("advice") / "data", "--config", str(settings)) as served:
        yield served


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of a job file."""
    file = tmp_path_factory.mktemp("file") / "job.yaml"
    file.write_text(JOB)
    return str(file)


@pytest.fixture(scope="module")
def advise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Advise]:
    """`schedulearn advise` against a service with 12 finished runs of the job."""
    with serve_api(tmp_path_factory.mktemp("runs"), gpu_prices={"*": 3600}) as api:
        run_experiment(api, {**EXPERIMENT, "max_parallel": 4})
        yield partial(invoke, "advise", url=str(api.http.base_url))


def test_the_cheapest_in_time_is_chosen_and_nothing_is_submitted(service: Service, job: str) -> None:
    assert "there are 0" in service.invoke("advise", job, code=1).err
    service.invoke("experiment", "start", "--wait", "-", stdin=yaml.safe_dump(EXPERIMENT))
    before = service.rows("SELECT count(*) FROM job")
    found = service.invoke("advise", job, "--within", "60", "--json").json
    assert (found["samples"], found["meets"]) == (12, True)
    assert {(each["batch_size"], each["required_gpus"]) for each in found["options"]} == {
        (batch, gpus) for batch in (32, 64) for gpus in (1, 2, 4)
    }
    seconds = {each["required_gpus"]: each["run_time"]["value"] for each in found["options"]}
    assert seconds[1] > seconds[4]
    assert found["chosen"]["cost"] == min(each["cost"] for each in found["options"])
    assert {score["model"] for score in found["time_models"]} == {
        "random forest", "boosting", "linear", "queueing", "goodput", "gaussian process",
    }  # fmt: skip
    assert found["metric_models"] == []
    assert service.rows("SELECT count(*) FROM job") == before


@pytest.mark.slow
def test_it_is_told_as_a_table_and_by_its_exit_code(advise: Advise, job: str) -> None:
    shown = advise(job, "--deadline", "1h", "--batch-size", "32", "--gpus", "2").out.splitlines()
    assert shown[0].startswith("batch_size 32, required_gpus 2")
    assert shown[1].split()[:2] == ["BATCH", "GPUS"]
    assert "From 12 finished jobs; time by" in shown[-1]
    assert "None of 6 configurations" in advise(job, "--within", "0.0001", code=1).out


def test_what_cannot_be_advised_is_told_why(advise: Advise, job: str, tmp_path: Path) -> None:
    assert "neither a time" in advise(job, "--deadline", "soon", code=2).err
    assert "no host has the requested number" in advise(job, "--gpus", "64", code=1).err
    other = tmp_path / "other.yaml"
    other.write_text(JOB.replace("exec sleep", "true"))
    assert "advice needs 10 finished jobs" in advise(str(other), code=1).err
