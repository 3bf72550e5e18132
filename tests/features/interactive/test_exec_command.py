"""`schedulearn exec`: a command in a running job, over pipes and in a terminal, against a real service."""

from __future__ import annotations

import os
import signal
import subprocess
import termios
import uuid
from pathlib import Path

import pytest
from clusters import wait_for
from services import COMMAND, Service
from terminals import read_until, type_in

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def job(service: Service) -> str:
    job_id = service.submit_shell("sleep 1000")
    service.wait(job_id, "running")
    return job_id


def test_output_errors_and_exit_code_come_back(service: Service, job: str) -> None:
    done = service.run("exec", job, "--", "sh", "-c", "echo out; echo err >&2; exit 9", code=9)
    assert (done.out, done.err) == ("out\n", "err\n")


def test_it_has_the_directory_and_the_variables_of_its_job(service: Service, job: str) -> None:
    assert service.run("exec", job, "--", "sh", "-c", "echo $SCHEDULEARN_TASK").out == f"schedulearn-{job}-1-0\n"


def test_pipes_carry_every_byte_and_their_end(service: Service, job: str) -> None:
    sent = os.urandom(1_000_000)
    command = [COMMAND, "exec", job, "--", "sh", "-c", "cat; echo done >&2"]
    done = subprocess.run(
        command,
        input=sent,
        capture_output=True,
        env=env_of(service),
        timeout=60,
        check=True,
    )
    assert done.stdout == sent
    assert done.stderr == b"done\n"


def test_what_no_longer_is_read_ends(service: Service, job: str) -> None:
    mark = f"10{uuid.uuid4().int % 10**12}"
    script = f"yes {mark}"
    command = f"{COMMAND} exec {job} -- {script} | head -n 1"
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        env=env_of(service),
        timeout=60,
        check=True,
    )
    assert done.stdout.decode() == f"{mark}\n"
    wait_for(lambda: not _running(f"yes\0{mark}"), what="its end")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_client_that_goes_takes_everything_along(service: Service, job: str, how: signal.Signals) -> None:
    mark = f"10{uuid.uuid4().int % 10**12}"
    script = f"trap '' INT TERM HUP; (setsid sleep {mark} &); sleep {mark}; true"
    with service.begin("exec", job, "--", "sh", "-c", script) as client:
        wait_for(lambda: len(_running(f"sleep\0{mark}")) == 2, what="its processes")
        client.send_signal(how)
        client.wait(30)
    wait_for(lambda: not _running(mark), what="its end")
    assert client.returncode == (130 if how is signal.SIGINT else -9)


def test_a_service_that_is_killed_takes_everything_along(tmp_path: Path) -> None:
    mark = f"10{uuid.uuid4().int % 10**12}"
    with Service(tmp_path / "data") as service:
        job = service.submit_shell("sleep 1000")
        service.wait(job, "running")
        with service.begin("exec", job, "--", "sleep", mark) as client:
            wait_for(lambda: _running(f"sleep\0{mark}"), what="the command")
            service.kill()
            _, err = client.communicate(timeout=30)
        assert client.returncode == 1
        assert "the command has been ended" in err
        wait_for(lambda: not _running(f"sleep\0{mark}"), what="its end")
        service.start()
        service.cancel_all()


def test_what_can_not_be_is_said(service: Service, job: str) -> None:
    waiting = service.submit_shell("true", required_gpus=1000)
    assert "is queued" in service.run("exec", waiting, "--", "true", code=1).err
    assert "no rank 7" in service.run("exec", job, "--rank", "7", "--", "true", code=1).err
    assert "no-such-thing: command not found" in service.run("exec", job, "--", "no-such-thing", code=127).err
    service.invoke("cancel", waiting)


class TestTerminal:
    def test_a_shell_is_typed_into_and_resized_and_hears_ctrl_c(self, service: Service, job: str) -> None:
        with service.window("exec", job) as (fd, client):
            type_in(fd, "echo $((6*7)) $(stty size)\n")
            read_until(fd, "42 24 80")
            termios.tcsetwinsize(fd, (33, 101))
            client.send_signal(signal.SIGWINCH)
            type_in(fd, "until [ $(stty size | tr ' ' x) = 33x101 ]; do sleep 0.05; done; echo re''sized\n")
            read_until(fd, "resized")
            mark = f"10{uuid.uuid4().int % 10**12}"
            type_in(fd, f"sleep {mark} || echo inter''rupted\n")
            wait_for(lambda: _running(f"sleep\0{mark}"), what="the command")
            type_in(fd, "\x03")
            type_in(fd, "echo a''live\n")
            read_until(fd, "alive")
            type_in(fd, "exit 3\n")
            assert client.wait(30) == 3
            assert termios.tcgetattr(fd)[3] & termios.ECHO, "the terminal is as it was"

    def test_a_terminal_that_is_closed_leaves_nothing(self, service: Service, job: str) -> None:
        mark = f"10{uuid.uuid4().int % 10**12}"
        with service.window("exec", job) as (fd, _):
            type_in(fd, f"nohup sleep {mark} >/dev/null 2>&1 &\n")
            wait_for(lambda: _running(f"sleep\0{mark}"), what="the command")
        wait_for(lambda: not _running(mark), what="its end")


def env_of(service: Service) -> dict[str, str]:
    return {**service.env, "SCHEDULEARN_URL": service.url}


def _running(text: str) -> list[str]:
    """Command lines that hold this text, whose words are divided by NULs."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
        except OSError:
            continue
        if text in line and "exec" not in line.split("\0"):
            found.append(line)
    return found


def test_top_shows_the_processes_of_a_job(service: Service, job: str) -> None:
    done = service.invoke("top", job)
    assert done.out.startswith(f"job {job}, rank 0 on ")
    assert "sleep 1000" in done.out
    seen = service.invoke("top", job, "--rank", "0", "--json").json
    assert "sleep 1000" in {each["command"] for each in seen["processes"]}
    assert "no rank 3" in service.invoke("top", job, "--rank", "3", code=1).err
    assert "needs a JOB" in service.invoke("top", "--rank", "3", code=2).err
