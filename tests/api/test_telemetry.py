"""GPUs in the API: now, over time, by job, for Prometheus; and their return."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import Api, serve_api
from clusters import wait_for
from gpu_probes.memory import FakeProbe
from matrices import each
from services import run
from sqlalchemy import insert

from schedulearn.metrics.probe.readings import GpuProcess, Xid
from schedulearn.scheduler.core.outcomes import gpu_health
from schedulearn.scheduler.store.db import Database, sqlite_url
from schedulearn.scheduler.store.history import ClusterMinute
from schedulearn.scheduler.store.models import GpuMinute


@pytest.fixture
def probe() -> FakeProbe:
    return FakeProbe(2)


@pytest.fixture
def api(tmp_path: Path, probe: FakeProbe, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(gpu_health, "OCCUPIED_AFTER_S", 0.1)
    with serve_api(tmp_path, probe=probe) as served:
        wait_for(lambda: len(gpus(served)) == 2 and all(gpu["reading"] for gpu in gpus(served)))
        yield served


def gpus(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.http.get("/api/v1/hosts/local").json()["gpus"]
    return found


def shown(api: Api, index: int, **wanted: Any) -> dict[str, Any]:
    """The GPU once it is shown so."""
    wait_for(lambda: all(gpus(api)[index][key] == value for key, value in wanted.items()), what=str(wanted))
    return gpus(api)[index]


def series(api: Api, path: str, **query: Any) -> dict[str, Any]:
    answer = api.http.get(f"/api/v1/{path}/telemetry", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_latest_second_of_each_gpu_is_shown_with_who_uses_it(api: Api, probe: FakeProbe) -> None:
    stranger = GpuProcess(77, "train.py", 5, "c" * 64, uid=1000)
    probe.set(
        1, processes=(stranger,), utilization=99.0, temperature=80.0, xids=(Xid(31, 1, 1.0),), throttle=("power_cap",)
    )
    gpu = shown(api, 1, state="occupied", utilization=99.0)
    assert gpu["occupied_by"] == "train.py (process 77, user id 1000, container cccccccccccc)"
    assert gpu["reading"] == {
        "memory_bytes": 1e9, "temperature": 80.0, "power_w": 100.0, "energy_j": None, "sm_mhz": None,
        "power_limit_w": None, "slowdown_temperature": None,
        "memory_mhz": None, "ecc_errors": 0, "xid": 31, "throttle": ["power_cap"],
        "processes": [{"pid": 77, "name": "train.py", "memory_bytes": 5, "container": "c" * 64, "uid": 1000}],
    }  # fmt: skip
    assert api.http.get("/api/v1/cluster").json()["gpus_free"] == 1


@pytest.mark.process
def test_an_unhealthy_gpu_is_told_and_returned_by_the_command_line(api: Api, probe: FakeProbe) -> None:
    url = str(api.http.base_url)
    assert "is not unhealthy" in run("hosts", "return", "local", "0", url=url, code=1).err
    probe.set(0, xids=(Xid(79, 1, time.time() - 1),))
    assert shown(api, 0, state="unhealthy")["fault"].startswith("Xid 79: it has fallen off the bus")
    assert "GPU 0 is unhealthy: Xid 79" in " ".join(run("hosts", "ls", url=url).out.split())
    assert api.http.get("/api/v1/cluster").json()["gpus_free"] == 1
    assert "GPU 0 of local: free" in run("hosts", "return", "local", "0", url=url).out
    shown(api, 0, state="free", fault="")
    for path, status in (("nowhere/gpus/0", 404), ("local/gpus/9", 404), ("local/gpus/0", 409)):
        assert api.http.post(f"/api/v1/hosts/{path}/return").status_code == status


def test_a_host_whose_probe_fails_says_why(api: Api, probe: FakeProbe) -> None:
    probe.fault = "its image can't be had"

    def told() -> str:
        problems = api.http.get("/api/v1/hosts/local").json()["problems"]
        return "".join(problem["message"] for problem in problems if problem["code"] == "gpus")

    assert "Its GPUs can't be monitored: its image can't be had" in wait_for(told)


def test_the_last_minutes_come_second_by_second(api: Api, probe: FakeProbe) -> None:
    probe.set(0, utilization=42.0)
    shown(api, 0, utilization=42.0)
    found = series(api, "hosts/local")
    assert (found["step_s"], found["metrics"][0]) == (1, "utilization")
    assert [gpu["uuid"] for gpu in found["gpus"]] == [probe.uuid(0), probe.uuid(1)]
    at, *values = found["gpus"][0]["points"][-1]
    assert time.time() - at < 5
    assert values == [42.0, pytest.approx(1e9), None, 100.0]


def test_what_is_longer_ago_comes_as_averages_in_a_bounded_number(api: Api, probe: FakeProbe) -> None:
    now = int(time.time() // 60)
    rows = [
        {"gpu_uuid": probe.uuid(0), "minute": now - 3000 + minute, "utilization": float(minute % 2 * 50)}
        for minute in range(3000)
    ]
    db = Database(sqlite_url(api.directory))
    db.write(lambda connection: connection.execute(insert(GpuMinute), rows))
    db.close()
    hour = series(api, "hosts/local", **{"from": iso((now - 60) * 60), "to": iso(now * 60)})
    assert hour["step_s"] == 60
    first, second = hour["gpus"]
    assert len(first["points"]) == 60
    assert first["points"][0] == [(now - 60) * 60.0, 0.0, None, None, None]
    assert second["points"] == []
    days = series(api, "hosts/local", **{"from": iso((now - 3000) * 60), "to": iso(now * 60)})
    assert days["step_s"] == 300
    assert 600 <= len(days["gpus"][0]["points"]) <= 602
    assert 10 <= days["gpus"][0]["points"][5][1] <= 40


def test_a_job_has_the_series_of_its_gpus_while_it_held_them(api: Api, probe: FakeProbe) -> None:
    job = api.submit(required_gpus=1, launcher="none")
    assert series(api, f"jobs/{job}")["gpus"] == [] or api.job(job)["state"] != "queued"
    api.wait(job, "running")
    time.sleep(0.3)
    api.runtime.finish(f"schedulearn-{job}-1-0")
    api.wait(job, "succeeded")
    [gpu] = series(api, f"jobs/{job}")["gpus"]
    [task] = api.job(job)["tasks"]
    assert [gpu["uuid"]] == task["gpu_uuids"]
    assert 3 <= len(gpu["points"]) <= 600
    assert iso(gpu["points"][0][0]) >= task["started_at"]
    assert iso(gpu["points"][-1][0]) <= task["finished_at"]


@each(
    [
        ("hosts/nowhere", {}, 404),
        ("jobs/nope", {}, 404),
        ("hosts/local", {"from": "yesterday"}, 422),
        ("hosts/local", {"from": "2030-01-01", "to": "2029-01-01"}, 422),
        ("hosts/local", {"from": "1970-01-01T00:00:00Z"}, 422),
    ],
    "path",
    "query",
    "status",
)
def test_a_series_that_makes_no_sense_is_refused(api: Api, path: str, query: dict[str, str], status: int) -> None:
    assert api.http.get(f"/api/v1/{path}/telemetry", params=query).status_code == status


def test_the_utility_comes_minute_by_minute_with_its_thresholds(api: Api) -> None:
    now = int(time.time() // 60)
    rows = [{"minute": now - 90 + n, "utility": 0.5 + n / 1000, "low": 0.55, "high": 0.75} for n in range(90)]
    db = Database(sqlite_url(api.directory))
    db.write(lambda connection: connection.execute(insert(ClusterMinute), rows))
    db.close()
    day = api.http.get("/api/v1/cluster/utility").json()
    assert (day["step_s"], len(day["points"])) == (180, pytest.approx(30, abs=1))
    hour = {"from": iso((now - 60) * 60), "to": iso(now * 60)}
    found = api.http.get("/api/v1/cluster/utility", params=hour).json()
    assert (found["step_s"], len(found["points"])) == (60, 60)
    assert found["points"][0] == [(now - 60) * 60.0, pytest.approx(0.53), 0.55, 0.75]
    assert api.http.get("/api/v1/cluster/utility", params={"from": "2030-01-01"}).status_code == 422


def test_prometheus_gets_dcgms_names(api: Api, probe: FakeProbe) -> None:
    probe.set(1, utilization=7.0, memory_bytes=float(3 << 30), temperature=55.0, power_w=250.5, xids=(Xid(31, 1, 1.0),))
    shown(api, 1, utilization=7.0)
    lines = api.http.get("/metrics").text.splitlines()
    labels = '{Hostname="local",UUID="GPU-real-1",gpu="1",modelName="A100"}'
    for name, value in (
        ("GPU_UTIL", 7),
        ("FB_USED", 3072),
        ("GPU_TEMP", 55),
        ("POWER_USAGE", 250.5),
        ("XID_ERRORS", 31),
    ):
        assert f"DCGM_FI_DEV_{name}{labels} {float(value)}" in lines
    assert 'schedulearn_gpus{gpu_type="A100",host="local",state="free"} 2.0' in lines


def test_simulated_gpus_have_readings_too(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        wait_for(lambda: all(gpu["reading"] for gpu in gpus(api)))
        assert gpus(api)[0]["state"] == "free"
        assert gpus(api)[0]["reading"]["power_w"] > 0


def iso(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"
