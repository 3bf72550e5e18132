"""A service on an open address: the certificate that it makes, and what clients do over it."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import stat
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from clusters import wait_for
from servers.ports import at_origin, begin_notebook, origin_in, socket_to
from services import COMMAND, IMAGE, Service, run

from schedulearn import AsyncClient, Client, UnreachableError
from schedulearn.api.access.guard import COOKIE, SECURE_COOKIE
from schedulearn.api.client.trust import trusted_context
from schedulearn.api.settings import Settings
from schedulearn.api.tls.certificates import certificate_for, make_own

SPEC = {"name": "n", "type": "t", "container_image": IMAGE, "command": "true", "required_gpus": 1, "launcher": "none"}


def certificate_of(service: Service) -> Path:
    return service.data / "tls" / "cert.pem"


def fingerprint_of(service: Service) -> str:
    der = ssl.PEM_cert_to_DER_cert(certificate_of(service).read_text())
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


@pytest.mark.process
def test_it_is_made_once_kept_private_and_told(tmp_path: Path) -> None:
    options = ["--data", str(tmp_path), "--port", "0", "--runtime", "process", "--simulate-gpus", "1"]
    told = set()
    for _ in range(2):
        serving = subprocess.Popen([COMMAND, "serve", "--host", "0.0.0.0", *options], stdout=subprocess.PIPE, text=True)
        assert serving.stdout is not None
        lines = [serving.stdout.readline() for _ in range(4)]
        serving.terminate()
        serving.communicate(timeout=30)
        assert lines[0].startswith("Schedulearn is ready: https://127.0.0.1:")
        fingerprint = lines[1].split()[-1]
        assert f" SCHEDULEARN_CA={fingerprint} SCHEDULEARN_TOKEN=" in lines[3]
        told.add(fingerprint)
    der = ssl.PEM_cert_to_DER_cert((tmp_path / "tls" / "cert.pem").read_text())
    assert told == {f"sha256:{hashlib.sha256(der).hexdigest()}"}, "the second start keeps it"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()}
    assert modes == {"cert.pem": 0o644, "key.pem": 0o600}


@pytest.mark.parametrize(
    ("settings", "has_tls"),
    [
        ({}, False),
        ({"host": "0.0.0.0"}, True),
        ({"host": "gpu1"}, True),
        ({"host": "0.0.0.0", "tls": "off"}, False),
        ({"host": "0.0.0.0", "behind_proxy": True}, False),
        ({"host": "0.0.0.0", "public_url": "http://gpu1:8000"}, False),
        ({"host": "0.0.0.0", "public_url": "https://gpu1:8000"}, True),
        ({"tls_cert": "cert.pem"}, True),
        ({"host": "0.0.0.0", "tls_cert": "cert.pem", "behind_proxy": True}, True),
    ],
)
def test_what_is_open_has_tls_unless_a_proxy_has_it_or_the_operator_wants_none(
    settings: dict[str, Any], has_tls: bool, tmp_path: Path
) -> None:
    assert Settings(**settings).has_tls is has_tls
    if not has_tls:
        assert certificate_for(Settings(**settings, data=tmp_path)) is None
        assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.process
def test_the_command_line_trusts_a_fingerprint_a_file_and_nothing_else(service: Service) -> None:
    known = {"SCHEDULEARN_TOKEN": service.token}
    fingerprint = fingerprint_of(service)
    for ca in (fingerprint, fingerprint.upper().replace("SHA256", "SHA-256"), str(certificate_of(service))):
        assert run("ls", "--ca", ca, url=service.url, **known).out.startswith("ID ")
        assert run("ls", url=service.url, SCHEDULEARN_CA=ca, **known).out.startswith("ID ")
    digits = fingerprint[len("sha256:") :]
    colons = ":".join(digits[at : at + 2] for at in range(0, 64, 2))
    assert run("ls", "--ca", f"sha256:{colons}", url=service.url, **known).out.startswith("ID ")
    wrong = f"sha256:{'0' * 64}"
    for options in ((), ("--ca", wrong)):
        refused = run("ls", *options, url=service.url, code=1, **known)
        assert f"what answers at {service.url} is not trusted" in refused.err
        assert "--ca or SCHEDULEARN_CA" in refused.err
    for ca, why in (
        ("sha256:abc", "64 hexadecimal digits"),
        ("/nowhere/ca.pem", "No such file"),
        (__file__, "can't be read"),
    ):
        assert why in run("ls", "--ca", ca, url=service.url, code=1, **known).err
    assert "use https://" in run("ls", url=service.url.replace("https", "http"), code=1, **known).err


def test_jobs_logs_terminals_and_both_clients_work_over_it(service: Service) -> None:
    done = service.run("submit", "--image", IMAGE, "--launcher", "none", "--", "echo", "over TLS")
    assert done.out == "over TLS\n", "its log is followed as a stream"
    job = service.submit_shell("sleep 1000")
    service.wait(job, "running")
    said = service.run("exec", job, "--", "sh", "-c", "cat; exit 3", stdin="to and fro", code=3)
    assert said.out == "to and fro"
    ca = str(certificate_of(service))
    with Client(service.url, service.token, ca=ca) as client:
        assert client.submit(SPEC)["state"] == "queued"

    async def look(trusted: str) -> str:
        async with AsyncClient(service.url, service.token, ca=trusted) as other:
            return str((await other.show(job))["id"])

    for trusted in (ca, fingerprint_of(service)):
        assert asyncio.run(look(trusted)) == job
    for trusted in ("", f"sha256:{'1' * 64}"):
        with pytest.raises(UnreachableError, match="is not trusted"):
            asyncio.run(look(trusted))


def test_sessions_are_cookies_of_this_host_that_only_go_over_tls(service: Service) -> None:
    with httpx.Client(base_url=service.url, verify=trusted_context(fingerprint_of(service))) as browser:
        entered = browser.post("/api/v1/session", json={"token": service.token})
        [cookie] = entered.headers.get_list("set-cookie")
        name, _, rest = cookie.partition("=")
        assert name == SECURE_COOKIE == f"__Host-{COOKIE}"
        attributes = {part.strip().lower() for part in rest.split(";")[1:]}
        assert {"secure", "httponly", "path=/", "samesite=strict"} <= attributes
        assert "strict-transport-security" not in entered.headers, "it would hold for other services of this host"
        value = browser.cookies[SECURE_COOKIE]
        assert browser.get("/api/v1/whoami").json()["role"] == "admin"
        browser.cookies.clear()
        forged = {"cookie": f"{COOKIE}={value}"}
        assert browser.get("/api/v1/whoami", headers=forged).status_code == 401, "any program here could have set it"
        kept = {"cookie": f"{SECURE_COOKIE}={value}"}
        gone = browser.delete("/api/v1/session", headers=kept)
        assert gone.headers["set-cookie"].startswith(f'{SECURE_COOKIE}=""')
        assert "secure" in gone.headers["set-cookie"].lower(), "without it a browser would keep the cookie"
        assert browser.get("/api/v1/whoami", headers=kept).status_code == 401
        document = browser.get("/api/v1/openapi.json", headers={"authorization": f"Bearer {service.token}"}).json()
    assert document["components"]["securitySchemes"]["session"]["name"] == SECURE_COOKIE


def test_ports_of_jobs_and_their_sockets_work_over_it(start_service: Callable[..., Service]) -> None:
    service = start_service("--host", "0.0.0.0", token="correct-horse", env={"SCHEDULEARN_PORTS_DOMAIN": "jobs.test"})
    job = begin_notebook(service)
    asked = {"host": f"gpu1.test:{service.port}"}
    link = str(service.http.post(f"/api/v1/jobs/{job}/ports/notebook", headers=asked).json()["url"])
    origin = origin_in(link)
    assert origin == f"https://notebook-{job}.jobs.test:{service.port}"
    with at_origin(service, origin) as client:
        entered = client.get(link.removeprefix(origin)).headers["set-cookie"]
        assert entered.startswith("__Host-schedulearn_port=")
        assert "secure" in entered.lower()
        cookie = entered.partition(";")[0]
        assert "Notebook" in client.get("/", headers={"cookie": cookie}).text
    with socket_to(service, origin, cookie, origin=origin) as opened:
        opened.send("ping")
        assert opened.recv(timeout=30) == "ping"


def test_one_that_is_about_to_end_is_made_anew(start_service: Callable[..., Service], tmp_path: Path) -> None:
    folder = tmp_path / "data" / "tls"
    make_own(folder, ["localhost"], datetime.now(UTC) - timedelta(days=3640))
    old = (folder / "cert.pem").read_text()
    service = start_service("--host", "0.0.0.0", token="correct-horse")
    wait_for(lambda: service.http.get("/healthz").status_code == 200, what="the first scheduling cycle")
    assert certificate_of(service) == folder / "cert.pem"
    assert ssl.get_server_certificate(("127.0.0.1", service.port), timeout=30) == certificate_of(service).read_text()
    assert certificate_of(service).read_text() != old
