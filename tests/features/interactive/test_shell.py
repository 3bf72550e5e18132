"""`schedulearn shell`: a job that begins for one shell and ends with it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from clusters import wait_for
from services import IMAGE, Service
from terminals import read_until, type_in


def newest(service: Service) -> dict[str, object]:
    found: dict[str, object] = service.call("GET", "/api/v1/jobs?limit=1")["items"][0]
    return found


def test_a_job_begins_for_it_and_ends_with_it(service: Service) -> None:
    with service.window("shell", "--gpus", "2", "--image", IMAGE) as (fd, client):
        read_until(fd, "ends with this shell")
        type_in(fd, "echo gpus $NVIDIA_VISIBLE_DEVICES\n")
        read_until(fd, "gpus GPU-")
        job = newest(service)
        assert (job["state"], job["name"], job["required_gpus"]) == ("running", "shell", 2)
        type_in(fd, "exit 5\n")
        assert client.wait(30) == 5
    assert service.wait(str(job["id"]), "succeeded", "failed")["state"] == "succeeded"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGHUP])
def test_it_ends_when_its_terminal_goes(service: Service, how: signal.Signals) -> None:
    with service.window("shell", "--image", IMAGE) as (fd, client):
        read_until(fd, "ends with this shell")
        type_in(fd, "echo re''ady\n")
        read_until(fd, "ready")
        client.send_signal(how)
        client.wait(30)
    assert service.wait(str(newest(service)["id"]), "succeeded", "cancelled")


def test_commands_by_a_pipe(service: Service) -> None:
    done = service.run("shell", "--image", IMAGE, "--gpus", "0", stdin="echo $((6*7))\nexit 4\n", code=4)
    assert done.out == "42\n"
    service.wait(str(newest(service)["id"]), "succeeded")


def test_who_waits_is_told_why_and_leaves_nothing_when_interrupted(service: Service) -> None:
    with service.begin("shell", "--image", IMAGE, "--gpus", "100") as client:
        words = wait_for(client.stderr.readline, what="the reason")
        assert "is queued" in words
        client.send_signal(signal.SIGINT)
        client.wait(30)
    assert client.returncode == 130
    assert newest(service)["state"] == "cancelled"


def test_idle_ones_end(start_service: Callable[..., Service], tmp_path: Path) -> None:
    service = start_service(env={"SCHEDULEARN_TERMINAL_IDLE": "2"})
    with service.window("shell", "--image", IMAGE) as (fd, client):
        read_until(fd, "nothing happened here for 2 s (terminal_idle)")
        assert client.wait(30) == 1
    assert service.wait(str(newest(service)["id"]), "succeeded", "cancelled")
