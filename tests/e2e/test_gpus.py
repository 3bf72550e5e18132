"""The service as users run it, over a stand-in for the NVIDIA driver: its GPUs are found, used, lost and returned."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import wait_for
from gpu_probes.nvml_library import build_library
from lease_checks import check_intervals, check_leases
from services import Service, run

pytestmark = [pytest.mark.long, pytest.mark.process]

UUID = "GPU-00000000-0000-0000-0000-00000000000{}"


class Machine:
    def __init__(self, served: Service, state: Path) -> None:
        self.served = served
        self.state = state

    def says(self, *lines: str) -> None:
        self.state.with_suffix(".new").write_text("\n".join(lines) + "\n")
        self.state.with_suffix(".new").replace(self.state)

    def gpu(self, index: int) -> dict[str, Any]:
        found: dict[str, Any] = self.served.http.get("/api/v1/hosts/local").json()["gpus"][index]
        return found

    def wait(self, index: int, state: str) -> dict[str, Any]:
        wait_for(lambda: self.gpu(index)["state"] == state, seconds=30, what=f"GPU {index} to be {state}")
        return self.gpu(index)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    library = build_library(tmp_path / "library")
    state = tmp_path / "state"
    env = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_GPUS": "3", "FAKE_NVML_STATE": str(state)}
    with Service(tmp_path / "data", gpus=None, env=env) as served:
        yield Machine(served, state)
        check_leases(served)
        check_intervals(served)


def test_real_gpus_are_used_by_uuid_and_what_jobs_do_on_them_is_not_foreign(machine: Machine) -> None:
    wait_for(lambda: machine.served.http.get("/api/v1/gpus").json(), what="GPUs")
    job = machine.served.submit("sh -c 'echo $NVIDIA_VISIBLE_DEVICES $$; sleep 60'", gpus=2)
    machine.served.wait(job, "running")
    words = wait_for(lambda: machine.served.logs(job).split(), seconds=10)
    assert words[0] == f"{UUID.format(0)},{UUID.format(1)}"
    machine.says(f"process 0 {words[1]} 1000", f"process 2 {os.getpid()} 1000")
    assert str(os.getpid()) in machine.wait(2, "occupied")["occupied_by"]
    mine = machine.gpu(0)
    assert (mine["state"], mine["occupied_by"]) == ("used", "")
    assert [process["pid"] for process in mine["reading"]["processes"]] == [int(words[1])]
    # Nobody gets the one that others use.
    other = machine.served.submit("true")
    machine.says(f"process 0 {words[1]} 1000")
    ended = machine.served.wait(other, "succeeded", seconds=40)
    assert ended["tasks"][0]["gpu_uuids"] == [UUID.format(2)]


def test_a_job_whose_gpu_falls_off_the_bus_goes_on_elsewhere_until_an_operator_returns_it(machine: Machine) -> None:
    url = str(machine.served.http.base_url)
    job = machine.served.submit("sleep 60")
    [first] = [gpu["uuid"] for gpu in machine.served.wait(job, "running")["gpus"]]
    bad = next(index for index in range(3) if UUID.format(index) == first)
    machine.says(f"xid {bad} 79", f"lost {bad}")
    assert machine.wait(bad, "unhealthy")["fault"].startswith("Xid 79: ")
    wait_for(lambda: (now := machine.served.job(job))["attempt"] == 2 and now["state"] == "running", seconds=30)
    now = machine.served.job(job)
    [second] = [gpu["uuid"] for gpu in now["gpus"]]
    assert second != first
    assert now["retries"] == 0
    # A crash of the service forgets nothing of it.
    machine.served.kill()
    machine.served.start()
    assert machine.gpu(bad)["state"] == "unhealthy"
    machine.says("")
    run("hosts", "return", "local", first, url=url)

    def free() -> list[str]:
        return [gpu["uuid"] for gpu in machine.served.http.get("/api/v1/gpus").json() if gpu["state"] == "free"]

    wait_for(lambda: len(free()) == 2 and first in free(), seconds=30, what="it to be free again")
    three = machine.served.submit("true", gpus=2)
    given = machine.served.wait(three, "succeeded", seconds=30)["tasks"][0]["gpu_uuids"]
    assert set(given) == {UUID.format(index) for index in range(3)} - {second}


def test_a_driver_that_fails_for_a_while_stops_nothing_and_is_asked_anew(machine: Machine) -> None:
    """Live as a person sees it: the stand-in answers as NVML does after its driver was replaced, then well again."""
    http, url = machine.served.http, str(machine.served.http.base_url)
    job = machine.served.submit("sleep 100")
    used = machine.served.wait(job, "running")["gpus"][0]["index"]
    wait_for(lambda: machine.gpu(used)["reading"], what="readings")
    machine.says("count 0 999", "blind 0")
    wait_for(lambda: machine.gpu(used)["unwatched"], seconds=30, what="it to be told")
    states = {gpu["state"] for gpu in http.get("/api/v1/gpus").json()}
    assert states == {"used", "unwatched"}
    assert machine.gpu(used)["reading"] is None or machine.gpu(used)["reading"]["power_w"] is None
    waits = machine.served.submit("true")
    time.sleep(15)  # after 14 s all jobs were stopped here
    now = machine.served.job(job)
    assert (now["state"], now["attempt"]) == ("running", 1)
    assert machine.served.job(waits)["state"] == "queued"
    assert "Unknown Error" in run("show", waits, url=url).out
    assert "Unknown Error" in run("hosts", "ls", url=url).out
    machine.says("")
    machine.served.wait(waits, "succeeded", seconds=40)
    assert {gpu["state"] for gpu in http.get("/api/v1/gpus").json()} == {"used", "free"}
    assert machine.served.job(job)["attempt"] == 1


def test_a_restart_while_nvml_can_not_be_used_keeps_gpu_jobs_waiting(machine: Machine) -> None:
    url = str(machine.served.http.base_url)
    wait_for(lambda: machine.served.http.get("/api/v1/gpus").json(), what="GPUs")
    machine.served.stop()
    machine.says("init 0 18")
    machine.served.start()
    job = machine.served.submit("true")
    on_cpu = machine.served.submit("true", gpus=0)
    machine.served.wait(on_cpu, "succeeded")
    assert machine.served.job(job)["state"] == "queued"
    assert "version mismatch" in run("show", job, url=url).out
    [row] = [line for line in run("hosts", "ls", url=url).out.splitlines() if line.startswith("local")]
    assert "version mismatch" in row
    assert "simulated" not in row
    assert not any(gpu["simulated"] for gpu in machine.served.http.get("/api/v1/gpus").json())
    found = run("doctor", "--data", str(machine.served.data), code=1, **machine.served.env).out
    assert "local: NVML can't be used" in found
    machine.says("")
    machine.served.wait(job, "succeeded", seconds=40)


@pytest.mark.docker
def test_a_docker_host_that_gives_no_gpus_is_added_and_says_what_is_missing(tmp_path: Path, docker_url: str) -> None:
    words = ["docker", "-H", docker_url, "info", "--format", "{{json .Runtimes}}"]
    if "nvidia" in subprocess.run(words, capture_output=True, text=True, check=False).stdout:
        pytest.skip("this engine does give GPUs")
    with Service(tmp_path / "data", gpus=0) as served:
        answer = served.http.post("/api/v1/hosts", json={"address": docker_url, "name": "far"}, timeout=60)
        assert answer.status_code == 201, answer.text
        found = wait_for(
            lambda: [p for p in served.http.get("/api/v1/hosts/far").json()["problems"] if "toolkit" in p["message"]],
            seconds=180,
            what="the missing toolkit to be told",
        )
        assert found[0]["code"] == "gpus"
        assert served.stop().code == 0
