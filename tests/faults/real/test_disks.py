"""What a service does whose database or disk gives up under it, and how it comes back."""

from __future__ import annotations

import os
import shlex
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest
from clusters import wait_for
from real_faults.disks import SmallDisk, can_mount, locked, small_disk
from services import IMAGE, Service, Stopped, invoke

pytestmark = pytest.mark.process


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    if not can_mount(tmp_path / "data"):
        pytest.skip("NOT tested here: a disk that is full or read-only. Only root can mount a small one")
    with small_disk(tmp_path / "data") as made:
        yield made


def refused_to_start(service: Service) -> Stopped:
    """How a service ended that could not begin."""
    service.start(wait=False)
    assert service.process is not None
    service.process.wait(60)
    return service.stop()


def submit(service: Service) -> httpx.Response:
    body = {"name": "j", "type": "t", "container_image": "plain", "command": "true", "required_gpus": 1}
    return service.http.post("/jobs", json={**body, "launcher": "none"})


def test_a_full_disk_refuses_jobs_and_reads_go_on(disk: SmallDisk) -> None:
    with Service(disk.folder) as service:
        first = service.submit("true")
        service.wait(first, "succeeded")
        disk.fill()
        answers = [submit(service)]
        wait_for(lambda: answers.append(submit(service)) or answers[-1].status_code != 201, what="a full disk")
        refused = answers[-1]
        assert (refused.status_code, refused.json()["code"]) == (507, "no_space"), refused.text
        assert "full" in refused.json()["detail"], "it says what is wrong"
        assert service.job(first)["state"] == "succeeded"
        disk.empty()
        wait_for(lambda: submit(service).status_code == 201, what="the disk to be free again")
        wait_for(lambda: not service.unfinished(), what="the end of all jobs")
        accepted = [answer for answer in answers if answer.status_code == 201]
        assert service.rows("SELECT count(*) FROM job")[0][0] == 1 + len(accepted) + 1


def test_a_job_that_fills_the_disk_is_cancelled_and_the_service_stops_and_starts(disk: SmallDisk) -> None:
    """The job writes on and on, and tries again when the disk is full: it takes whatever room there is."""
    script = "while :; do cat /dev/zero >> ballast; sleep 0.01; echo full; done"
    with Service(disk.folder) as service:
        job = service.submit(f"sh -c {shlex.quote(script)}")
        wait_for(lambda: os.statvfs(disk.folder).f_bavail == 0, what="a full disk")
        time.sleep(1)
        refused = submit(service)
        assert (refused.status_code, refused.json()["code"]) == (507, "no_space"), refused.text
        stopped = service.stop()
        assert stopped.code == 0, stopped.errors
        assert "Traceback" not in stopped.errors
        service.start()
        answer = service.http.post(f"/api/v1/jobs/{job}/cancel")
        assert answer.status_code == 200, answer.text
        service.wait(job, "cancelled")
        with suppress(FileNotFoundError):  # what a job left in its own directory goes by itself
            for ballast in disk.folder.rglob("ballast"):
                ballast.unlink()
        wait_for(lambda: submit(service).status_code == 201, what="room for jobs")
        wait_for(lambda: not service.unfinished(), what="the end of all jobs")


def test_below_the_low_water_mark_nothing_more_is_taken(disk: SmallDisk, tmp_path: Path) -> None:
    with Service(disk.folder) as service:
        talks = service.submit("sh -c 'while :; do echo some words; sleep 0.1; done'")
        service.wait(talks, "running")
        fails = {"type": "t", "container_image": IMAGE, "command": "false", "required_gpus": 0}
        runs = {"name": "s", "job": fails, "list": [{"env.A": 1}]}
        tried = "/api/v1/sweeps/" + service.http.post("/api/v1/sweeps", json=runs).json()["id"]
        wait_for(lambda: service.http.get(tried).json()["state"] == "completed", what="its only run")
        disk.fill()
        kept = service.http.get(f"/api/v1/jobs/{talks}/logs").content
        time.sleep(2)
        assert len(service.http.get(f"/api/v1/jobs/{talks}/logs").content) <= len(kept) + 64
        for path in ("/api/v1/code", "/api/v1/content"):
            answer = service.http.post(path, content=b"x", headers={"content-type": "application/x-tar"})
            assert (answer.status_code, answer.json()["code"]) == (507, "no_space"), answer.text
        job = {"type": "t", "container_image": IMAGE, "command": "true", "required_gpus": 0}
        sweep = {"name": "s", "job": job, "list": [{"env.A": 1}]}
        for path, body in (("jobs", {**job, "name": "j"}), ("sweeps", sweep)):
            answer = service.http.post(f"/api/v1/{path}", json=body)
            assert (answer.status_code, answer.json()["code"]) == (507, "no_space"), answer.text
        assert service.http.get("/api/v1/cluster").json()["disk_low"] is True
        assert service.http.post(f"/api/v1/jobs/{talks}/cancel").status_code == 200
        service.wait(talks, "cancelled")
        assert service.http.post(f"{tried}/retry").status_code == 200
        wait_for(lambda: service.http.get(tried).json()["reason"] == "disk_low", what="the reason why its run waits")
        assert service.http.get(tried).json()["counts"]["pending"] == 1
        disk.empty()
        service.submit("true")
        wait_for(lambda: service.http.get(tried).json()["state"] == "completed", what="its run, once there is room")
        assert service.http.get("/api/v1/cluster").json()["disk_low"] is False


@pytest.mark.long
def test_a_command_that_ends_while_the_disk_is_full_has_ended_once(disk: SmallDisk, tmp_path: Path) -> None:
    began, goes_on, ended = (tmp_path / name for name in ("began", "goes_on", "ended"))
    script = f"echo began >> {began}; until [ -e {goes_on} ]; do sleep 0.1; done; sleep 1; touch {ended}"
    with Service(disk.folder) as service:
        job = service.submit(f"sh -c '{script}'")
        wait_for(began.exists, what="the command to begin")
        goes_on.touch()
        disk.fill()
        wait_for(ended.exists, what="the command to end")
        time.sleep(2)  # meanwhile its keeper can't write down how it ended
        disk.empty()
        service.wait(job, "succeeded")
        assert began.read_text().split() == ["began"], "it was not begun anew"


def test_a_data_folder_that_can_not_be_written_is_refused_with_its_reason(disk: SmallDisk) -> None:
    with Service(disk.folder) as service:
        job = service.submit("true")
        service.wait(job, "succeeded")
        service.stop()
        disk.make_read_only()
        ended = refused_to_start(service)
        assert ended.code == 1
        assert "read-only" in ended.errors.lower(), ended.errors
        assert "Traceback" not in ended.errors
        disk.make_writable()
        service.start()
        assert service.job(job)["state"] == "succeeded"


@pytest.mark.long
def test_a_database_that_somebody_else_holds_is_waited_for_and_then_told(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as service:
        with locked(service.data / "schedulearn.db"):
            answer = submit(service)
            assert (answer.status_code, answer.json()["code"]) == (503, "store"), answer.text
            assert "locked" in answer.json()["detail"]
            assert service.http.get("/api/v1/jobs").status_code == 200
        wait_for(lambda: submit(service).status_code == 201, what="the database to be free again")
        wait_for(lambda: not service.unfinished(), what="the end of all jobs")


def _damage(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'event'")
        [(size,)] = connection.execute("PRAGMA page_size")
    with database.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xff" * size)


def _cut_off(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # else what is lost is still in there
    with database.open("r+b") as raw:
        raw.truncate(1000)


def test_a_damaged_database_is_refused_and_a_backup_brings_it_back(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as service:
        job = service.submit("true")
        service.wait(job, "succeeded")
        for harm in (_damage, _cut_off):
            backup, told = str(tmp_path / f"{harm.__name__}.tar.gz"), f"after {harm.__name__}"
            service.invoke("backup", backup, "--data", str(service.data))
            service.kill()
            harm(service.data / "schedulearn.db")
            ended = refused_to_start(service)
            assert ended.code == 1, told
            assert "schedulearn restore" in ended.errors, (told, ended.errors)
            assert "Traceback" not in ended.errors, (told, ended.errors)
            service.data.rename(tmp_path / told)
            invoke("restore", backup, "--data", str(service.data))
            service.start()
            assert service.job(job)["state"] == "succeeded", told
