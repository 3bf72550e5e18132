"""A job that holds GPUs and hangs is told, once, as long as it lasts; and restarted or ended where that is asked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apis import Api, serve_api
from clusters import FakeCluster, spec, wait_for
from gpu_probes.memory import FakeProbe
from services import Service

from schedulearn.scheduler.settings import ClusterSettings


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, idle_after=0.4, interval=0.1) as served:
        yield served


def hung(api: Api, job_id: str) -> list[tuple[str, str]]:
    found = api.http.get(f"/api/v1/jobs/{job_id}/events").json()["items"]
    return [(event["kind"], event["code"]) for event in found if event["kind"] == "job.hung"]


@pytest.mark.slow
def test_a_job_that_seems_to_hang_is_told_by_event_and_message(api: Api) -> None:
    job_id, cpu = api.submit(required_gpus=1), api.submit(required_gpus=0)
    api.wait(job_id, "running")
    wait_for(lambda: "It may hang." in api.job(job_id)["message"])
    found = api.job(job_id)["hang"]
    assert (found["kind"], found["message"][-12:]) == ("idle", "It may hang.")
    assert api.job(job_id)["started_at"] <= found["since"]
    assert hung(api, job_id) == [("job.hung", "idle")]
    assert api.job(cpu)["hang"] is None, "it may compute for long without a word"
    [listed] = [job for job in api.http.get("/api/v1/jobs").json()["items"] if job["id"] == job_id]
    assert listed["hang"] == found, "what is shown of it stays the same as long as it lasts"
    api.write_log(job_id, f"{time.time()}\n".encode())
    wait_for(lambda: api.job(job_id)["hang"] is None)
    assert "It may hang." not in api.job(job_id)["message"]


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    off = ClusterSettings(idle_after=0, gpus_unused_after=0, hang_steps=0)
    with FakeCluster(tmp_path, settings=off) as c:
        [job_id] = c.submit(spec())
        c.wait(job_id, "running")
        c.cluster.loop.close()
        clock = iter((0.0, 1e6, 2e6))
        c.cluster.hangs._monotonic = lambda: next(clock)
        assert not any(c.cluster.hangs.look(time.time(), {"local"}) for _ in range(3))
        assert c.cluster.hangs.hung == {}


def test_a_host_that_does_not_answer_makes_no_job_hang(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job_id] = c.submit(spec())
        c.wait(job_id, "running")
        c.cluster.loop.close()
        watch, clock = c.cluster.hangs, [0.0]
        watch._looked_at = float("-inf")
        watch._monotonic = lambda: clock[0]
        for clock[0], answering in ((0.0, {"local"}), (1000.0, {"local"}), (2000.0, set()), (3000.0, {"local"})):
            assert watch.look(time.time(), answering) == {}
        clock[0] = 4800.0
        assert watch.look(time.time(), {"local"}).keys() == {job_id}


def test_gpus_that_are_measured_and_not_used_are_told_though_the_job_writes(tmp_path: Path) -> None:
    probe = FakeProbe(2)
    with FakeCluster(tmp_path, gpus=0, probe=probe, settings=ClusterSettings(gpus_unused_after=900.0)) as c:
        lazy, diligent = c.submit(spec("lazy"), spec("diligent"))
        for job_id in (lazy, diligent):
            c.wait(job_id, "running")
        with c.cluster.db.read() as db:
            used = db.exec_driver_sql(f"SELECT gpu_uuids FROM task WHERE job_id = '{diligent}'").scalar()
        index = 0 if probe.uuid(0) in str(used) else 1
        probe.set(index, utilization=80.0)
        wait_for(lambda: c.cluster.utilization(probe.uuid(index)) == 80.0)
        c.cluster.loop.close()
        watch, clock = c.cluster.hangs, [1e9]
        watch._monotonic = lambda: clock[0]
        writers = {job_id: c.cluster.logs.writer(c.task(job_id)) for job_id in (lazy, diligent)}
        for _ in range(10):
            for writer in writers.values():
                writer.append(b"still here\n")
            watch.look(time.time(), {"local"})
            clock[0] += 100.0
        assert {job_id: found.kind for job_id, found in watch.hung.items()} == {lazy: "gpus_unused"}
        for writer in writers.values():
            writer.close()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Local processes. A job of it is idle after a second, and in a crash loop after three equal exits."""
    settings = {"IDLE_AFTER": "1", "INTERVAL": "0.2", "CRASH_LIMIT": "3"}
    env = {f"SCHEDULEARN_{name}": value for name, value in settings.items()}
    with Service(tmp_path_factory.mktemp("hangs") / "data", env=env) as served:
        yield served
        served.cancel_all()


def outcomes(job: dict[str, Any]) -> list[tuple[int, str]]:
    return [(task["attempt"], task["outcome"]) for task in job["tasks"]]


@pytest.mark.process
def test_a_process_that_hangs_is_told_in_lists_and_ended_where_that_is_asked(real: Service) -> None:
    quiet = real.submit_shell("sleep 1000")
    wait_for(lambda: real.job(quiet)["hang"], seconds=60)
    assert "running: idle" in real.invoke("ls").out
    doomed = real.submit_shell("sleep 1000", on_hang="end")
    job = real.wait(doomed, "failed")
    assert (job["reason"], outcomes(job)) == ("hung", [(1, "hung")])
    assert job["message"].endswith("It may hang. Therefore it is ended.")
    assert job["hang"] is None
    assert real.job(quiet)["state"] == "running", "others are only told"


@pytest.mark.process
def test_a_process_that_hangs_once_is_restarted_and_ends_well(real: Service, tmp_path: Path) -> None:
    once = f"test -e {tmp_path}/again && exit 0; touch {tmp_path}/again; sleep 1000"
    job = real.wait(real.submit_shell(once, on_hang="restart"), "succeeded")
    assert outcomes(job) == [(1, "hung"), (2, "completed")]
    assert (job["restarts"], job["retries"]) == (1, 0)
    codes = [event["code"] for event in real.call("GET", f"/api/v1/jobs/{job['id']}/events")["items"]]
    assert [code for code in codes if code.startswith(("hang", "idle", "retry"))] == ["idle", "hang_restart", "retry"]


@pytest.mark.long
@pytest.mark.process
def test_a_job_that_hangs_again_and_again_is_ended(real: Service) -> None:
    job = real.wait(real.submit_shell("sleep 1000", on_hang="restart"), "failed", seconds=120)
    assert job["reason"] == "hung"
    assert outcomes(job) == [(attempt, "hung") for attempt in (1, 2, 3, 4)]
    assert "It was restarted 3 times for that" in job["message"]


@pytest.mark.process
def test_a_process_that_always_ends_alike_is_a_crash_loop(real: Service) -> None:
    job = real.wait(real.submit_shell("exit 7", max_restarts=1000), "failed")
    assert (job["reason"], job["exit_code"], job["attempt"]) == ("crash_loop", 7, 3)
    assert "998 more retries stay unused" in job["message"]
