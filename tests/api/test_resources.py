"""What hosts and running tasks take, in the API: now, over time, for Prometheus, and by the command line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api
from clusters import wait_for
from services import run
from sqlalchemy import insert, select
from sqlmodel import col

from schedulearn.api.prometheus import MAX_USERS, OTHERS, _held
from schedulearn.metrics.probe.machine import MachineCounters
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.models import Task
from schedulearn.scheduler.store.resources.minutes import HOST_METRICS, HostMinute, TaskMinute
from schedulearn.scheduler.telemetry import resources

MIB = 1 << 20


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(resources, "EVERY_S", 0.05)
    with serve_api(tmp_path) as served:
        yield served


def get(api: Api, path: str, **query: Any) -> Any:
    answer = api.http.get(f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def running(api: Api, **fields: Any) -> tuple[str, str]:
    """(job, its task) that has taken something."""
    job = api.submit(required_gpus=1, launcher="none", **fields)
    api.wait(job, "running")
    task = f"schedulearn-{job}-1-0"
    api.runtime.resources.take(task, cpu_seconds=5.0, memory_bytes=300 * MIB, network=1000, disk=2000)
    wait_for(lambda: [each for each in get(api, "resources") if each["memory_bytes"] == 300 * MIB])
    return job, task


def database(api: Api) -> Database:
    return Database(sqlite_url(api.directory))


@pytest.mark.process
def test_a_host_says_what_is_taken_of_it_now(api: Api) -> None:
    api.runtime.resources.of_machine = MachineCounters(8, 100.0, 4 * GIB, 16 * GIB, 40 * GIB, 100 * GIB, 1, None, 3, 4)
    taken = {
        "cpus": 0.0, "cpus_total": 8, "memory_bytes": 4 * GIB, "memory_total": 16 * GIB, "disk_bytes": 40 * GIB,
        "disk_total": 100 * GIB, "network_in": 0.0, "network_out": None, "disk_read": 0.0, "disk_written": 0.0,
    }  # fmt: skip
    wait_for(lambda: get(api, "hosts/local")["resources"] == taken)  # not yet by what was counted before
    out = run("hosts", "ls", url=str(api.http.base_url)).out
    assert "0.0 of 8" in out
    assert "4 of 16 GiB" in out
    top = run("top", url=str(api.http.base_url)).out
    line = next(line for line in top.splitlines() if "4 of 16 GiB" in line)
    assert line.split("GiB")[-1].split() == ["0", "bytes/s", "-", "0", "bytes/s", "0", "bytes/s"], "one is not told"


@pytest.mark.process
def test_running_tasks_say_what_they_take_now(api: Api) -> None:
    job, task = running(api, memory="512m")
    [found] = get(api, "resources")
    assert (found["task"], found["job"], found["attempt"], found["rank"], found["host"]) == (task, job, 1, 0, "local")
    assert (found["memory_bytes"], found["memory_limit"]) == (300 * MIB, 512 * MIB)
    assert found["cpus"] >= 0
    assert found["network_in"] >= 0
    url = str(api.http.base_url)
    line = next(line for line in run("top", url=url).out.splitlines() if "300 MiB of 512 MiB" in line)
    assert job in line


def test_a_job_has_the_series_of_its_tasks_with_limits_and_peak(api: Api) -> None:
    job, task = running(api, memory="512m", cpus=2)
    found = get(api, f"jobs/{job}/telemetry")["resources"]
    assert found["metrics"] == ["cpus", "memory_bytes", "network_in", "network_out", "disk_read", "disk_written"]
    [series] = found["series"]
    assert (series["name"], series["host"], series["attempt"], series["rank"]) == (task, "local", 1, 0)
    assert (series["cpus_limit"], series["memory_limit"], series["memory_peak"]) == (2.0, 512 * MIB, 300 * MIB)
    assert series["points"][-1][2] == 300 * MIB
    assert abs(time.time() - series["points"][-1][0]) < 30


def test_what_is_longer_ago_comes_as_averages(api: Api) -> None:
    job, task = running(api)
    now = int(time.time() // 60)
    db = database(api)
    with db.read() as conn:
        seq = conn.execute(select(col(Task.seq)).where(col(Task.id) == task)).scalar()
    rows = [{"task_seq": seq, "minute": now - 3000 + n, "cpus": 1.5, "memory_bytes": float(n)} for n in range(3000)]
    of_host = [{"host_id": "local", "minute": now - 60 + n, "cpus": 2.0} for n in range(60)]
    db.write(lambda conn: conn.execute(insert(TaskMinute), rows))
    db.write(lambda conn: conn.execute(insert(HostMinute), of_host))
    db.close()
    span = {"from": iso((now - 3000) * 60), "to": iso(now * 60)}
    found = get(api, f"jobs/{job}/telemetry", **span)["resources"]
    assert found["step_s"] == 300
    assert 600 <= len(found["series"][0]["points"]) <= 602
    assert found["series"][0]["points"][5][1] == 1.5
    hour = get(api, "hosts/local/telemetry", **{"from": iso((now - 60) * 60), "to": iso(now * 60)})["resources"]
    assert (hour["step_s"], hour["metrics"]) == (60, list(HOST_METRICS))
    assert hour["series"][0]["points"][0] == [(now - 60) * 60.0, 2.0, *[None] * 6]


def test_the_last_minutes_of_a_host_come_look_by_look(api: Api) -> None:
    wait_for(lambda: len(get(api, "hosts/local/telemetry")["resources"]["series"][0]["points"]) > 2)
    found = get(api, "hosts/local/telemetry")["resources"]
    [series] = found["series"]
    assert (series["cpus_limit"], series["memory_limit"], series["disk_limit"]) == (8.0, 16 * GIB, 100 * GIB)
    assert series["points"][-1][2:] == [4 * GIB, 40 * GIB, 0.0, 0.0, 0.0, 0.0]


def test_an_ended_task_keeps_its_peak(api: Api) -> None:
    job, task = running(api)
    api.runtime.finish(task)
    api.wait(job, "succeeded")
    assert get(api, "resources") == []
    assert get(api, f"jobs/{job}/telemetry")["resources"]["series"][0]["memory_peak"] == 300 * MIB


def test_a_job_killed_for_its_memory_says_the_most_that_was_seen(api: Api) -> None:
    job, task = running(api, memory="512m")
    api.runtime.finish(task, 137, oom_killed=True)
    said = api.wait(job, "failed")["message"]
    assert "its limit is 512 MiB (the key `memory`); its highest observed use is 300 MiB" in said


def test_prometheus_gets_counters_and_gauges(api: Api) -> None:
    job, _ = running(api, memory="512m")
    lines = api.http.get("/metrics").text.splitlines()
    labels = f'{{attempt="1",host="local",job="{job}",rank="0"}}'
    for name, value in (
        ("cpu_seconds_total", 5.0),
        ("memory_bytes", 300.0 * MIB),
        ("memory_limit_bytes", 512.0 * MIB),
        ("network_receive_bytes_total", 1000.0),
        ("network_transmit_bytes_total", 1000.0),
        ("disk_read_bytes_total", 2000.0),
        ("disk_written_bytes_total", 2000.0),
    ):
        [line] = [line for line in lines if line.startswith(f"schedulearn_task_{name}{labels}")]
        assert float(line.split()[-1]) == value
    for name, value in (
        ("cpus", 8), ("memory_total_bytes", 16 * GIB), ("disk_used_bytes", 40 * GIB),
        ("network_receive_bytes_total", 1000), ("network_transmit_bytes_total", 2000), ("disk_read_bytes_total", 3000),
        ("disk_written_bytes_total", 4000),
    ):  # fmt: skip
        [line] = [line for line in lines if line.startswith(f'schedulearn_host_{name}{{host="local"}}')]
        assert float(line.split()[-1]) == value
    assert any(line.startswith('schedulearn_host_cpu_seconds_total{host="local"}') for line in lines)


def test_a_run_of_an_experiment_keeps_what_it_took(api: Api) -> None:
    job = {key: value for key, value in FIVE_KEYS.items() if key != "name"} | {"required_gpus": 1, "launcher": "none"}
    body = {"name": "one", "job": job, "factors": {"batch_size": [32]}}
    experiment = api.http.post("/api/v1/experiments", json=body).json()["id"]
    job_id = wait_for(lambda: get(api, f"experiments/{experiment}")["table"][0]["job"], what="the run's job")
    api.wait(job_id, "running")
    task = f"schedulearn-{job_id}-1-0"
    api.runtime.resources.take(task, cpu_seconds=5.0, memory_bytes=300 * MIB)
    wait_for(lambda: [each for each in get(api, "resources") if each["memory_bytes"] == 300 * MIB])
    api.runtime.finish(task)
    wait_for(lambda: get(api, f"experiments/{experiment}")["state"] == "completed", what="its end")
    results = get(api, f"experiments/{experiment}")["table"][0]["results"]
    assert results["memory"] == 300 * MIB
    assert results["cpus"] > 0
    assert results["host_utilization"] == 0.0, "the host of this test is idle"


def iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def test_prometheus_gets_waiting_times_and_the_gpus_of_users(api: Api) -> None:
    first = api.submit(required_gpus=3, user="ann")
    api.wait(first, "running")
    waits = api.submit(required_gpus=4, user="ben")
    held = api.submit(required_gpus=1, user="ann", hold=True)
    lines = api.http.get("/metrics").text.splitlines()
    assert 'schedulearn_user_gpus{user="ann"} 3.0' in lines
    assert not [line for line in lines if 'user="ben"' in line], "it holds none"
    api.http.post(f"/api/v1/jobs/{waits}/cancel")  # it would go first
    api.http.post(f"/api/v1/jobs/{held}/release")
    api.wait(held, "running")
    counts = {
        line.split()[0]: float(line.split()[1])
        for line in api.http.get("/metrics").text.splitlines()
        if "_wait_" in line and line[0] != "#"
    }
    policy = api.http.get("/api/v1/policy").json()["algorithm"]
    assert counts[f'schedulearn_job_wait_seconds_count{{policy="{policy}"}}'] == 2.0, "first starts only"
    assert counts[f'schedulearn_job_wait_seconds_bucket{{le="+Inf",policy="{policy}"}}'] == 2.0
    assert 0.0 <= counts[f'schedulearn_job_wait_seconds_sum{{policy="{policy}"}}'] < 120.0


def test_series_of_users_are_bounded() -> None:
    [*samples] = _held({f"user-{number}": number + 1 for number in range(100)}).samples
    assert len(samples) == MAX_USERS + 1
    assert {sample.labels["user"]: sample.value for sample in samples}[OTHERS] == sum(range(1, 81))
    assert sum(sample.value for sample in samples) == 5050
