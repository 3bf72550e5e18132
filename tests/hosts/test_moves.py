"""Real training goes on from its checkpoint on another host: by a drain that brings it there, and by the copy after a
cut."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import wait_for
from engines import Lab, LabHost, serving
from lease_checks import check_leases
from services import Service, run

pytestmark = [pytest.mark.long, pytest.mark.docker, pytest.mark.horovod]

ROOT = Path(__file__).parents[2]
DIGITS = json.loads((ROOT / "worker_images/examples/digits/job-sdk.json").read_text())


@pytest.fixture
def training(hosts: Lab, tmp_path: Path, docker_url: str, worker_image: str) -> Iterator[Service]:
    hosts.load(worker_image, docker_url, "h1", "h2")
    with serving(hosts, tmp_path / "data", "h1", "h2", SCHEDULEARN_CHECKPOINT_INTERVAL="2") as service:
        yield service


def epochs(log: str) -> list[int]:
    return [int(found) for found in re.findall(r"epoch (\d+)/", log)]


def begin(served: Service, hosts: Lab) -> tuple[str, LabHost]:
    """A job of two workers that has trained for some epochs, and its host."""
    body = {**DIGITS, "required_gpus": 2, "min_gpus": 2, "max_gpus": 2, "command": DIGITS["command"] + " --epochs 4000"}
    job = served.http.post("/jobs", json=body).json()["id"]
    served.wait(job, "running", seconds=120)
    wait_for(lambda: len(epochs(served.logs(job))) > 5, seconds=90, what="some epochs")
    return job, hosts.hosts[served.job(job)["tasks"][0]["host"]]


def goes_on(served: Service, job: str, before: int, seconds: float) -> None:
    """A second attempt trains, from where the first had come to."""

    def resumed() -> str:
        return served.logs(job).partition("continues at")[2]

    wait_for(lambda: epochs(resumed()), seconds=seconds, what="an epoch elsewhere")
    first = epochs(resumed())[0]
    assert first >= before, f"it had come to epoch {before}, and went on with {first}"


def events(served: Service, job: str) -> str:
    return " ".join(event["message"] for event in served.http.get(f"/api/v1/jobs/{job}/events").json()["items"])


def test_a_drain_takes_checkpoints_along(training: Service, hosts: Lab) -> None:
    job, home = begin(training, hosts)
    before = epochs(training.logs(job))[-1]
    run("hosts", "drain", home.name, "--deadline", "60", url=str(training.http.base_url))
    goes_on(training, job, before, 120)
    [other] = {"h1", "h2"} - {home.name}
    assert f"Its checkpoints were copied from {home.name} to {other}." in events(training, job)
    assert training.job(job)["tasks"][-1]["host"] == other
    check_leases(training)


def test_after_a_cut_it_goes_on_from_the_copy_and_the_old_host_is_fenced(training: Service, hosts: Lab) -> None:
    job, home = begin(training, hosts)
    copy = training.data / "checkpoint-copies" / f"{job}.tar"
    wait_for(copy.exists, seconds=30, what="a copy")
    made = copy.stat().st_mtime
    wait_for(lambda: copy.stat().st_mtime > made, seconds=30, what="a newer copy")
    home.cut()
    goes_on(training, job, 1, 120)
    assert f"{home.name} does not answer: it continues from the service's copy" in events(training, job)
    assert home.running() == [f"schedulearn-{job}-1-0"], "it still trains there, cut off"
    check_leases(training)
    home.mend()
    wait_for(lambda: home.containers() == [], seconds=90, what="the fenced container to be removed")
    training.wait(job, "running")
    assert training.job(job)["attempt"] == 2


WRITES = """[ -e /outputs/model.txt ] && echo it is here already
[ -e /outputs/model.txt ] || echo step 7 > /outputs/model.txt
sleep 1000
"""


def test_outputs_go_where_their_job_goes_and_come_from_there(training: Service, hosts: Lab, tmp_path: Path) -> None:
    job = training.submit_shell(WRITES, container_image=DIGITS["container_image"])
    training.wait(job, "running", seconds=120)
    where = f"/api/v1/jobs/{job}/files"

    def host() -> str | None:
        items = training.http.get(where, params={"path": "outputs"}).json().get("items")
        return items[0]["host"] if items else None

    first = wait_for(host, seconds=60, what="a file in the outputs")
    run("hosts", "drain", first, "--deadline", "0s", url=training.url)
    wait_for(lambda: "it is here already" in training.logs(job), seconds=120, what="its start elsewhere")
    assert host() not in (None, first)
    training.run("cp", f"{job}:/outputs/model.txt", str(tmp_path))
    assert (tmp_path / "model.txt").read_text() == "step 7\n"
