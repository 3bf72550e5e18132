"""Two real services on one database of PostgreSQL and one data folder: one schedules, the other one takes over."""

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusters import wait_for
from services import COMMAND, IMAGE, Service

pytestmark = pytest.mark.process

JOB = {"name": "job", "type": "t", "container_image": IMAGE, "command": "true", "required_gpus": 1}
ENDED = ("succeeded", "failed", "cancelled", "timeout")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def pair(postgres: Any, tmp_path: Path) -> Iterator[tuple[Service, Service]]:
    """One that schedules, and one that waits."""
    url = postgres.create(empty=True)
    with ExitStack() as stack:
        stack.callback(postgres.drop, url)
        made = []
        for name in ("first", "second"):
            service = Service(tmp_path / "data", env={"SCHEDULEARN_DATABASE_URL": url})
            service._stderr = tmp_path / f"{name}.stderr"  # the data folder is both's
            service._stderr.touch()
            service.port = free_port()
            stack.callback(service.http.close)
            stack.callback(service.kill)
            made.append(service)
        first, second = made
        first.start()
        second.start(wait=False)
        second.http.base_url = httpx.URL(f"http://127.0.0.1:{second.port}")
        wait_for(lambda: answer(second) == 503, seconds=120, what="the standby")
        yield first, second


def answer(service: Service) -> int:
    try:
        return service.http.get("/healthz").status_code
    except httpx.TransportError:
        return 0


def test_the_other_service_takes_over_and_no_job_is_lost_or_run_twice(
    pair: tuple[Service, Service], tmp_path: Path
) -> None:
    first, second = pair
    refused = second.http.post("/api/v1/jobs", json={})
    assert (refused.status_code, refused.json()["code"]) == (503, "standby")
    assert "retry-after" in refused.headers
    ran = tmp_path / "ran"
    ran.touch()
    long = first.submit_shell(f"echo long >> {ran}; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done")
    first.wait(long, "running")
    acknowledged: list[str] = []
    enough = threading.Event()

    def submit(number: int) -> None:
        for each in range(100):
            name = f"{number}-{each}"
            try:
                acknowledged.append(first.submit_shell(f"echo {name} >> {ran}", name=name))
            except (httpx.HTTPError, AssertionError):
                return
            if len(acknowledged) > 10:
                enough.set()

    with ThreadPoolExecutor(4) as users:
        for number in range(4):
            users.submit(submit, number)
        assert enough.wait(120)
        first.kill()
    second.wait_ready()
    (tmp_path / "go").touch()
    for job_id in (long, *acknowledged):
        job = second.wait(job_id, *ENDED, seconds=240)
        assert (job["state"], job["attempt"]) == ("succeeded", 1)
    lines = ran.read_text().split()
    assert len(lines) == len(set(lines))
    names = {second.job(job_id)["name"] for job_id in acknowledged}
    assert names <= set(lines)
    first.start(wait=False)  # it is the standby now
    wait_for(lambda: answer(first) == 503, seconds=120, what="the standby")
    assert first.stop().code == 0
    second.cancel_all()
    assert second.stop().code == 0


@pytest.mark.long
def test_a_service_that_lost_its_database_to_another_one_ends(
    pair: tuple[Service, Service], postgres: Any, tmp_path: Path
) -> None:
    first, second = pair
    url = first.env["SCHEDULEARN_DATABASE_URL"]
    second.kill()
    # A standby on another machine has a copy of the folder, and no way to see the first one but by the database.
    copy = tmp_path / "copy"
    shutil.copytree(first.data, copy, ignore=shutil.ignore_patterns("*.lock"))
    with ExitStack() as stack:
        other = Service(copy, env={"SCHEDULEARN_DATABASE_URL": url})
        other.port = free_port()
        stack.callback(other.http.close)
        stack.callback(other.kill)
        other.start(wait=False)
        other.http.base_url = httpx.URL(f"http://127.0.0.1:{other.port}")
        wait_for(lambda: answer(other) == 503, seconds=120, what="the standby")
        assert first.process is not None
        # Its machine halts, and the server takes its session for dead.
        first.process.send_signal(signal.SIGSTOP)
        locks = "SELECT pid FROM pg_locks WHERE locktype = 'advisory'"
        postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN ({locks})", url)
        other.wait_ready()
        first.process.send_signal(signal.SIGCONT)
        wait_for(lambda: first.process.poll() == 1, seconds=120, what="its end")
        assert "lost the database lock to another instance" in first.log()


def test_a_service_that_is_stopped_is_replaced_and_changes_nothing_when_it_goes_on(
    pair: tuple[Service, Service], tmp_path: Path
) -> None:
    """In real time: its system answers for it, so only the silence of its session tells. Takes `HANG_S` and more."""
    first, second = pair
    stop = tmp_path / "stop"
    running = first.submit_shell(f"while [ ! -e {stop} ]; do sleep 0.1; done")
    first.wait(running, "running")
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    with ThreadPoolExecutor(1) as user:
        # The system takes the connection and the request: the service finds them when it goes on.
        late = user.submit(lambda: httpx.post(f"{first.url}/api/v1/jobs", json={**JOB, "name": "late"}, timeout=120))
        wait_for(lambda: answer(second) == 200, seconds=60, what="the second one's turn")
        second.wait_ready()
        assert time.monotonic() - began < 60
        job = second.submit_shell("true", name="theirs")
        second.wait(job, "succeeded")
        first.process.send_signal(signal.SIGCONT)
        wait_for(lambda: first.process.poll() == 1, seconds=120, what="its end")
        try:
            assert late.result(120).status_code == 503
        except httpx.TransportError:
            pass  # it ended before it answered
    assert "lost the database lock to another instance" in first.log()
    assert second.job(running)["state"] == "running"
    stop.touch()
    ended = second.wait(running, *ENDED)
    assert (ended["state"], ended["attempt"]) == ("succeeded", 1)
    assert {row["name"] for row in second.call("GET", "/api/v1/jobs")["items"]} == {"job", "theirs"}
    assert second.stop().code == 0


def test_a_service_with_another_data_folder_is_refused(pair: tuple[Service, Service], tmp_path: Path) -> None:
    first, _ = pair
    url = first.env["SCHEDULEARN_DATABASE_URL"]
    command = [COMMAND, "serve", "--database", url, "--data", tmp_path / "other", "--port", "0"]
    said = subprocess.run(command, env=first.env, capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode == 1
    assert said.stderr.startswith(
        f"Error: {tmp_path / 'other'} is not the data folder of the other services on this database"
    )
    assert answer(first) == 200
