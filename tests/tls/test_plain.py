"""What a service with TLS answers to those who come without it: reports of jobs, and where to go instead."""

from __future__ import annotations

import base64
import json
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import OpenerDirector

import httpx
import pytest
from clusters import wait_for
from servers.authorities import Authority
from servers.ports import free_port
from services import Service
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from schedulearn.worker.environment import Environment
from schedulearn.worker.reporter import opener_for

REPORTS = """
import json, time
from schedulearn.worker.environment import Environment
from schedulearn.worker.reporter import Reporter
env = Environment.read()
batch = {"init": 8, "max": 8, "min_local": 8, "max_local": 8, "atomic": 8, "accumulation": 0, "why": "x"}
reporter = Reporter(env, lambda: {"attempt": 1, "batch": batch}, lambda: None)
reporter.start()
end = time.monotonic() + 100
while reporter.answer is None and time.monotonic() < end:
    time.sleep(0.05)
print(json.dumps({"url": env.report_url, "answer": reporter.answer}), flush=True)
"""


@pytest.fixture(scope="module")
def plain(service: Service) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{service.port}", headers=headers, trust_env=False) as client:
        yield client


def test_requests_are_refused_and_browsers_sent_to_tls(service: Service, plain: httpx.Client) -> None:
    for method, path in (("GET", "/api/v1/jobs"), ("POST", "/api/v1/jobs"), ("POST", "/api/v1/session"), ("GET", "/")):
        refused = plain.request(method, path, json={} if method == "POST" else None)
        assert (refused.status_code, refused.json()["code"]) == (403, "needs_tls"), path
        assert f"use https://127.0.0.1:{service.port}" in refused.json()["detail"]
    html = {"accept": "text/html,*/*"}
    sent = plain.get("/ui/jobs/a%2Fb?x=1&y=%20", headers=html)
    assert (sent.status_code, sent.headers["location"]) == (307, f"{service.url}/ui/jobs/a%2Fb?x=1&y=%20")
    for host in ("evil.test/x", "a b", "a@b", ""):
        assert plain.get("/ui/", headers={**html, "host": host}).status_code in (400, 403), host
    wait_for(lambda: plain.get("/healthz").json()["status"] == "ok", what="the first scheduling cycle")


def test_sockets_are_refused(service: Service) -> None:
    known = {"authorization": f"Bearer {service.token}"}
    for path in ("/jobs/x/logs", "/api/v1/jobs/x/exec"):
        with pytest.raises(InvalidStatus, match="HTTP 403"):
            connect(f"ws://127.0.0.1:{service.port}{path}", additional_headers=known, proxy=None)


def test_reports_are_taken_by_the_token_of_their_job_only(plain: httpx.Client) -> None:
    answer = plain.post("/api/v1/reports", json={})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), "a token of the service is none"


def report_of(service: Service, tmp_path: Path) -> tuple[str, bool]:
    """Where the worker SDK reports to in a job, and whether the service took it."""
    script = tmp_path / "reports.py"
    script.write_text(REPORTS)
    job = service.submit(f"{sys.executable} {script}")
    service.wait(job, "succeeded", "failed", seconds=150)
    said = json.loads(service.logs(job).splitlines()[-1])
    return said["url"], said["answer"] is not None


def test_workers_report_without_tls_on_this_machine(service: Service, tmp_path: Path) -> None:
    assert report_of(service, tmp_path) == (f"http://127.0.0.1:{service.port}/api/v1/reports", True)


def test_workers_of_other_machines_know_the_own_certificate(
    start_service: Callable[..., Service], tmp_path: Path
) -> None:
    port = free_port()
    env = {"SCHEDULEARN_REPORT_URL": f"https://127.0.0.1:{port}"}
    service = start_service("--host", "0.0.0.0", port=port, token="correct-horse", env=env)
    assert report_of(service, tmp_path) == (f"https://127.0.0.1:{port}/api/v1/reports", True)


def test_a_worker_trusts_no_other_certificate(service: Service, authority: Authority) -> None:
    url = f"https://127.0.0.1:{service.port}/healthz"
    own, foreign = service.data / "tls" / "cert.pem", authority.issue("127.0.0.1")[0]
    with worker_opener(own).open(url, timeout=30) as answer:
        assert answer.status == 200
    for trusted in (foreign, authority.file, None):
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            worker_opener(trusted).open(url, timeout=30)


def worker_opener(trusted: Path | None) -> OpenerDirector:
    env = {"SCHEDULEARN_JOB_ID": "j"}
    if trusted is not None:
        der = ssl.PEM_cert_to_DER_cert(trusted.read_text())
        env["SCHEDULEARN_REPORT_CERTIFICATE"] = base64.b64encode(der).decode()
    known = Environment.read(env)
    assert known is not None
    return opener_for(known)
