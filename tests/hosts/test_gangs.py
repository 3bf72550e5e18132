"""Real training over two engines: Horovod and torchrun meet without ssh between the containers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from clusters import wait_for
from engines import Lab
from services import Service

pytestmark = [pytest.mark.long, pytest.mark.docker, pytest.mark.horovod]

ROOT = Path(__file__).parents[2]
DIGITS = json.loads((ROOT / "worker_images/examples/digits/job.json").read_text())
ALL_REDUCE = r"""
import os, torch, torch.distributed as d
d.init_process_group("gloo")
total = torch.ones(1) * (d.get_rank() + 1)
d.all_reduce(total)
os.write(1, f"world {d.get_world_size()} sum {int(total)}\n".encode())
"""


@pytest.mark.timeout(900)  # six workers on however few processors
def test_six_workers_train_over_two_hosts(training: Service, hosts: Lab) -> None:
    job = {**DIGITS, "required_gpus": 6, "command": DIGITS["command"] + " --epochs 8 --batch-size 16"}
    answer = training.http.post("/jobs", json=job)
    assert answer.status_code == 201
    job_id = answer.json()["id"]
    running = training.wait(job_id, "running", "failed", seconds=120)
    assert running["allocation"] == {"h1": 4, "h2": 2}
    assert training.rows("SELECT host_id FROM port_lease") == [("h1",)]
    ended = training.wait(job_id, "succeeded", "failed", seconds=700)
    log = training.logs(job_id)
    assert ended["state"] == "succeeded", log
    found = re.findall(r"final test accuracy ([0-9.]+)", log)
    assert found, log
    assert float(found[-1]) > 0.90
    leased = {uuid for task in ended["tasks"] for uuid in task["gpu_uuids"]}
    assert len(leased) == 6
    assert all(uuid in log for uuid in leased), "the workers did not see their GPUs"
    assert training.rows("SELECT count(*) FROM port_lease") == [(0,)]


def test_torchrun_spans_two_hosts_too(training: Service) -> None:
    command = f"python -c '{ALL_REDUCE}'"
    body = {**DIGITS, "required_gpus": 6, "launcher": "torchrun", "command": command}
    job_id = training.http.post("/jobs", json=body).json()["id"]
    ended = training.wait(job_id, "succeeded", "failed", seconds=120)
    log = training.logs(job_id)
    assert ended["state"] == "succeeded", log
    assert log.count("world 6 sum 21") == 6, log


def test_a_gang_that_loses_a_host_is_stopped_on_the_other_and_waits_for_enough_gpus(
    training: Service, hosts: Lab
) -> None:
    body = {**DIGITS, "required_gpus": 6, "command": DIGITS["command"] + " --epochs 1000"}
    job_id = training.http.post("/jobs", json=body).json()["id"]
    training.wait(job_id, "running", seconds=120)
    wait_for(lambda: "epoch" in training.logs(job_id), seconds=90, what="the first epoch")
    hosts.hosts["h2"].cut()
    training.wait(job_id, "queued", seconds=120)
    wait_for(lambda: hosts.hosts["h1"].running() == [], seconds=60)
    assert training.rows("SELECT count(*) FROM lease") == [(0,)]
    hosts.hosts["h2"].mend()
    again = training.wait(job_id, "running", seconds=120)
    assert again["attempt"] == 2
    assert hosts.hosts["h2"].running() == [f"schedulearn-{job_id}-2-1"]
