"""Reports of a job in a real container, to a service with a certificate that no authority knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from servers.ports import free_port
from services import Service

from schedulearn.api.reach import bridge_address

PYTHON = "/opt/venv/bin/python"
REPORTS = """
import json, sys, time, urllib.error, urllib.request
from dataclasses import replace
from schedulearn.worker.environment import Environment
from schedulearn.worker.reporter import Reporter, opener_for

batch = {"init": 8, "max": 8, "min_local": 8, "max_local": 8, "atomic": 8, "accumulation": 0, "why": "x"}

def takes(env):
    reporter = Reporter(env, lambda: {"attempt": 1, "batch": batch}, lambda: None)
    reporter.start()
    end = time.monotonic() + 100
    while reporter.answer is None and time.monotonic() < end:
        time.sleep(0.05)
    return reporter.answer is not None

told = Environment.read()
plain = replace(told, report_url=told.report_url.replace("https", "http"), report_certificate=None)
said = {"url": told.report_url, "by TLS": takes(told), "without": takes(plain)}
try:
    opener_for(plain).open(plain.report_url.replace("/reports", "/jobs"), timeout=30)
except urllib.error.HTTPError as error:
    said["jobs without"] = json.loads(error.read())["code"]
try:
    opener_for(replace(told, report_certificate=None)).open(told.report_url, timeout=30)
except urllib.error.URLError as error:
    said["unknown"] = "CERTIFICATE_VERIFY_FAILED" in str(error)
print(json.dumps(said))
"""


@pytest.mark.docker
def test_a_container_reports_by_tls_and_without(tmp_path: Path, docker_url: str, worker_image: str) -> None:
    gateway, port = bridge_address(), free_port()
    assert gateway is not None
    address = f"https://{gateway}:{port}"
    env = {"DOCKER_HOST": docker_url, "SCHEDULEARN_REPORT_URL": address}
    service = Service(tmp_path / "data", "--host", "0.0.0.0", token="correct-horse", runtime="docker", env=env)
    service.port = port
    with service:
        program = f'{PYTHON} -c "$REPORTS"'
        job = service.submit_shell(program, container_image=worker_image, env={"REPORTS": REPORTS}, gpus=0)
        service.wait(job, "succeeded", "failed", seconds=290)
        assert json.loads(service.logs(job).splitlines()[-1]) == {
            "url": f"{address}/api/v1/reports",
            "by TLS": True,
            "without": True,
            "jobs without": "needs_tls",
            "unknown": True,
        }
