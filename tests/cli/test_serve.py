"""serve: starting, refusing to start, the token, stopping, and what outlives it."""

from __future__ import annotations

import gc
import getpass
import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest
from clusters import wait_for
from matrices import each
from services import COMMAND, IMAGE, Result, Service, invoke, run

from schedulearn.api.cli.service import server
from schedulearn.api.cli.service.announcement import Announcement
from schedulearn.api.settings import Settings

Start = Callable[..., Service]
Refuse = Callable[..., Result]


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One that tests stop, and start again before they end."""
    running = Service(tmp_path_factory.mktemp("own") / "data")
    running.start()
    yield running
    running.close()


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Refuse]:
    """`serve` in this process, which must not start. For what is refused before its database is open: that would stay
    open. What it sets for a process of its own is set back."""

    def started(_: object) -> None:
        raise AssertionError("it started")

    def refused(*arguments: str, env: Mapping[str, str] | None = None) -> Result:
        known = {"SCHEDULEARN_PORT": "0", **(env or {})}
        said = invoke("serve", *arguments, code=1, **known)
        assert (said.out, said.err[:7]) == ("", "Error: ")
        return said

    monkeypatch.setattr(server._Server, "_announce", started)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    mask, interval = os.umask(0o022), sys.getswitchinterval()
    os.umask(mask)
    yield refused
    os.umask(mask)
    sys.setswitchinterval(interval)
    gc.enable()


@contextmanager
def event_stream(service: Service, path: str) -> Iterator[http.client.HTTPResponse]:
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)) as connection:
        connection.request("GET", path, headers={"accept": "text/event-stream"})
        with connection.getresponse() as response:
            yield response


@pytest.mark.process
def test_the_first_line_says_where_the_page_is_and_the_last_what_runs_jobs(tmp_path: Path) -> None:
    serving = subprocess.Popen(
        [COMMAND, "serve", "--data", str(tmp_path), "--port", "0", "--runtime", "process", "--simulate-gpus", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert serving.stdout is not None
    assert serving.stderr is not None
    line = serving.stdout.readline()
    serving.send_signal(signal.SIGINT)
    with serving, serving.stdout as out, serving.stderr as err:  # `communicate` would lose what `readline` took with it
        rest, errors = out.read(), err.read()
    assert line.startswith("Schedulearn is ready: http://127.0.0.1:")
    assert line.endswith("/ui/ with 1 SIMULATED GPU, no real ones\n")
    assert ":0/" not in line
    account = getpass.getuser()
    what = f"Jobs run as local processes of {account}, and may do what {account} may."
    warning = " WARNING: every user who may submit a job is root on this machine." if os.geteuid() == 0 else ""
    assert rest == f"{what}{warning}\nStopped. Running jobs continue.\n"
    assert (serving.returncode, errors) == (0, "")


def test_falling_back_to_local_processes_is_told(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, runtime="auto")
    for runtime, told in (("process", "No Docker Engine answers. Jobs run as local processes of "), ("docker", "Jobs")):
        assert Announcement(settings, made_token=False).lines("machine", runtime)[1].startswith(told)


@pytest.mark.process
def test_the_first_start_on_an_open_address_prints_a_link_that_logs_in_once_and_both_how_to_use_the_token(
    tmp_path: Path,
) -> None:
    options = ["--data", str(tmp_path), "--port", "0", "--runtime", "process", "--simulate-gpus", "1"]
    links, tokens = [], set()
    for _ in range(2):
        command = [COMMAND, "serve", "--host", "0.0.0.0", "--tls", "off", *options]
        serving = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert serving.stdout is not None
        said = [serving.stdout.readline() for _ in range(4)]
        port = int(said[0].split("/ui/")[0].rpartition(":")[2])
        found = [line.strip().rpartition("#login=")[2] for line in said if "#login=" in line]
        for code in found:
            base = f"http://127.0.0.1:{port}/api/v1"
            with httpx.Client(trust_env=False) as browser:
                assert browser.get(f"{base}/jobs").status_code == 401
                assert browser.post(f"{base}/session", json={"token": code}).status_code == 200
                assert browser.get(f"{base}/whoami").json()["role"] == "admin"
                assert browser.post(f"{base}/session", json={"token": code}).status_code == 401
        links += found
        serving.send_signal(signal.SIGINT)
        serving.communicate(timeout=20)
        tokens.add((tmp_path / "token").read_text())
        assert any(f"SCHEDULEARN_TOKEN=$(cat {tmp_path / 'token'})" in line for line in said)
        assert not any(token in line for token in tokens for line in said)
    assert len(links) == 1, "not again by the second start"
    assert len(tokens) == 1, "it is kept"


@pytest.mark.process
def test_it_stops_at_once_with_readers_connected_and_jobs_live_on_to_be_adopted(
    own_service: Service, tmp_path: Path
) -> None:
    service, flag = own_service, tmp_path / "go"
    job_id = service.submit_shell(f"echo up; while [ ! -e {flag} ]; do sleep 0.02; done; echo down")
    service.wait(job_id, "running")
    for how in (signal.SIGTERM, signal.SIGINT):
        with ExitStack() as stack:
            paths = ("events", f"jobs/{job_id}/logs")
            streams = [stack.enter_context(event_stream(service, f"/api/v1/{path}")) for path in paths]
            assert all(stream.read(1) for stream in streams)
            stopped = service.stop(how)
            assert (stopped.code, stopped.errors) == (0, ""), how
            assert stopped.seconds < 3, how
            for stream in streams:
                stream.read()  # ended in order: a cut would raise
        assert service.leaked(), "the job's processes should go on"
        service.start()

    flag.touch()
    job = service.wait(job_id, "succeeded", "failed")
    assert (job["state"], job["attempt"], job["restarts"]) == ("succeeded", 1, 0)
    assert service.invoke("logs", job_id).out == "up\ndown\n"


@pytest.mark.process
def test_it_stops_though_a_reader_does_not_read_and_a_task_does_not_want_to(own_service: Service) -> None:
    service = own_service
    deaf = service.submit_shell("trap '' TERM; echo deaf; while :; do sleep 0.1; done")
    job_id = service.submit_shell("head -c 40000000 /dev/zero | tr '\\0' x")
    service.wait(job_id, "succeeded")
    with socket.create_connection(("127.0.0.1", service.port)) as idle:
        idle.sendall(f"GET /api/v1/jobs/{job_id}/logs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        idle.recv(10)
        stopped = service.stop()
    assert stopped.code == 0
    assert stopped.seconds < 4
    service.start()

    wait_for(lambda: service.invoke("logs", deaf).out == "deaf\n", what="the trap")
    service.invoke("cancel", deaf)
    wait_for(lambda: service.job(deaf)["state"] == "stopping", what="the signal that it ignores")
    stopped = service.stop()
    assert stopped.code == 0
    assert stopped.seconds < 8
    service.start()
    service.wait(deaf, "cancelled")


def test_an_answer_that_is_cut_only_after_the_stop_is_not_an_error() -> None:
    server = Path(__file__).parents[1] / "support/servers/ends_late.py"
    serving = subprocess.Popen(
        [sys.executable, str(server)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    assert serving.stdout is not None
    assert serving.stderr is not None
    with serving, serving.stdout as out, serving.stderr as err:
        port = int(json.loads(out.readline())["url"].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as reader:
            reader.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert out.readline() == "begun\n"
            serving.send_signal(signal.SIGTERM)
            assert (out.read(), err.read()) == ("ended\n", "")


def test_a_second_service_is_kept_off_the_data(service: Service, refuse: Refuse) -> None:
    assert service.process is not None
    assert refuse("--data", str(service.data), "--runtime", "process").err == (
        f"Error: another Schedulearn (process {service.process.pid}) uses {service.data}: stop it, or choose "
        "another --data\n"
    )


@pytest.mark.parametrize("file", ["other.db", "data/schedulearn.db"])
def test_a_second_service_is_kept_off_a_database_that_both_name(
    start_service: Start, refuse: Refuse, tmp_path: Path, file: str
) -> None:
    """Whether it is elsewhere, or in the folder of one of them: both would start its jobs."""
    known = {"SCHEDULEARN_DATABASE_URL": f"sqlite:///{tmp_path / file}"}
    service = start_service(env=known)
    assert service.process is not None
    assert refuse("--data", str(tmp_path / "second"), "--runtime", "process", env=known).err == (
        f"Error: another Schedulearn (process {service.process.pid}) uses the database {tmp_path / file}: stop it, or "
        "choose another database_url\n"
    )
    service.kill()
    service.start()
    assert service.call("GET", "/api/v1/jobs")["items"] == []


@each(["mysql://here/jobs", "postgresql:/x", "sqlite://", "sqlite:///", "jobs.db"], "url")
def test_a_database_that_can_not_be_used_is_told_in_one_line(tmp_path: Path, refuse: Refuse, url: str) -> None:
    said = refuse("--data", str(tmp_path), env={"SCHEDULEARN_DATABASE_URL": url})
    assert said.err.startswith("Error: setting 'database_url' (environment variable SCHEDULEARN_DATABASE_URL): ")
    assert said.err.count("\n") == 1


def test_a_database_that_can_not_be_reached_is_told_in_one_line(tmp_path: Path, refuse: Refuse) -> None:
    url = f"postgresql://me:hidden@/jobs?host={tmp_path}"
    said = refuse("--data", str(tmp_path), "--database", url)
    assert said.err.startswith("Error: the database postgresql://me:***@/jobs can't be used: ")
    assert said.err.count("\n") == 1
    assert "hidden" not in said.err


def test_a_port_that_is_taken_is_told(service: Service, tmp_path: Path, refuse: Refuse) -> None:
    said = refuse("--data", str(tmp_path), "--port", str(service.port), "--runtime", "process")
    assert said.err.count("\n") == 1
    assert f"can't listen on 127.0.0.1 port {service.port}: another program listens there" in said.err


@each(
    [
        (["--interval", "-1"], "", {}, "interval"),
        (["--token", "short"], "", {}, "token"),
        (["--host", "no.such.host.invalid"], "", {}, "can't listen on 'no.such.host.invalid'"),
        (["--host", "192.0.2.1", "--token", "long-enough"], "", {}, "no such address"),
        ([], "prot: 80", {}, "prot"),
        ([], "{", {}, "can't be read"),
        ([], "policies: [nowhere.py:X]", {}, "nowhere.py:X"),
        ([], "", {"SCHEDULEARN_PORT": "many"}, "port"),
    ],
    *("flags", "config", "env", "says"),
)
def test_what_keeps_it_from_starting_is_one_line(
    tmp_path: Path, refuse: Refuse, flags: list[str], config: str, env: dict[str, str], says: str
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(config)
    data = ["--data", str(tmp_path / "data"), "--config", str(file)]
    said = refuse(*data, "--runtime", "process", *flags, env=env)
    assert says in said.err


@pytest.mark.process
def test_without_the_engine_that_it_was_told_to_use_it_does_not_start(tmp_path: Path) -> None:
    """Its exit code and what it writes stand for all that is refused."""
    no_engine = {"DOCKER_HOST": "unix:///nonexistent.sock"}
    said = run("serve", "--data", str(tmp_path / "data"), "--port", "0", "--runtime", "docker", code=1, **no_engine)
    assert "no Docker Engine answers" in said.err
    assert said.err.startswith("Error: ")
    assert said.out == ""


def test_a_folder_that_can_not_be_written_is_one_line(tmp_path: Path, refuse: Refuse) -> None:
    (tmp_path / "file").touch()
    assert refuse("--data", str(tmp_path / "file" / "data"), "--runtime", "process").err.count("\n") == 1


@pytest.mark.process
def test_beyond_loopback_every_route_asks_for_the_token(start_service: Start, tmp_path: Path) -> None:
    service = start_service("--host", "0.0.0.0", "--tls", "off")
    token_file = service.data / "token"
    assert token_file.stat().st_mode & 0o077 == 0
    token = token_file.read_text().strip()
    for path in ("jobs", "hosts", "gpus", "policy", "events", "openapi.json", "jobs/x/logs", "nothing"):
        assert service.http.request("GET", f"/api/v1/{path}").status_code == 401, path
    for path in ("/jobs", "/metrics", "/nothing"):
        assert service.http.request("GET", path).status_code == 401, path
    assert service.http.request("POST", "/api/v1/jobs", json={}).status_code == 401
    with event_stream(service, "/api/v1/events") as stream:
        assert (stream.status, stream.getheader("www-authenticate")) == (401, "Bearer")
    wait_for(lambda: service.http.request("GET", "/healthz").status_code == 200, what="the first scheduling cycle")

    refused = invoke("ls", url=service.url, code=1)
    assert "SCHEDULEARN_TOKEN" in refused.err
    assert (
        "SCHEDULEARN_TOKEN"
        in invoke("ls", url=service.url, SCHEDULEARN_TOKEN="not the token".replace(" ", "-"), code=1).err
    )
    assert "plain ASCII" in invoke("ls", url=service.url, SCHEDULEARN_TOKEN="not\nthe token", code=1).err
    service.use_token(token)
    done = invoke(
        *("submit", "--image", IMAGE, "--launcher", "none", "--", "echo", "let in"),
        url=service.url,
        SCHEDULEARN_TOKEN=token,
    )
    assert done.out == "let in\n"


def test_in_a_container_the_start_says_what_to_open_and_how_to_see_the_token(tmp_path: Path) -> None:
    show = "docker compose exec schedulearn cat /data/token"
    settings = Settings(host="0.0.0.0", data=tmp_path, public_url="http://127.0.0.1:8123/", token_command=show)
    assert Announcement(settings, made_token=True).lines("0a1b2c", "docker") == [
        "Schedulearn is ready: http://127.0.0.1:8123/ui/",
        f"Clients need its token: `{show}` shows it, and the page asks for it. For the command line:",
        f"  export SCHEDULEARN_URL=http://127.0.0.1:8123 SCHEDULEARN_TOKEN=$({show})",
        "Jobs run in containers of Docker Engine.",
    ]


@pytest.mark.process
def test_it_brings_along_nothing_that_it_does_not_need_and_stays_small(tmp_path: Path) -> None:
    """An idle one: with jobs there are predictions, which need NumPy."""
    options = ["--data", str(tmp_path), "--port", "0", "--runtime", "process", "--simulate-gpus", "4"]
    with (tmp_path / "imported").open("w+") as told:
        command = [sys.executable, "-X", "importtime", COMMAND, "serve", *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=told, text=True) as serving:
            assert serving.stdout is not None
            serving.stdout.readline()
            status = Path(f"/proc/{serving.pid}/status").read_text()
            serving.terminate()
        told.seek(0)
        imported = {line.rpartition("|")[2].strip() for line in told}
    assert "schedulearn.api.cli.service.server" in imported
    assert imported & {"httpx", "rich", "numpy", "cryptography"} == set()
    [resident] = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
    assert resident < 120 * 1024  # the budget in docs/performance.md


def test_the_command_line_does_not_bring_along_the_service() -> None:
    code = (
        "import schedulearn.api.cli, sys; print([m for m in ('fastapi', 'sqlalchemy', 'uvicorn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
