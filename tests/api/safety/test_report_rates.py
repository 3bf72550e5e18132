"""One job's workers that report without end: they are refused early, others are not."""

from __future__ import annotations

import select
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from apis import Api

from schedulearn.scheduler.reports.rate import RateLimit

REPORT = {"attempt": 1, "batch": {"init": 64, "max": 1024, "atomic": 32, "accumulation": 0}}
MEMBERSHIP = {"attempt": 1, "member": 0, "leads": False, "trained": 0, "forming": False, "known": 0, "hold": 0}


@pytest.fixture
def tokens(api: Api) -> list[str]:
    """Of two jobs that run."""
    jobs = [api.submit(elastic=True, required_gpus=1, max_gpus=1) for _ in range(2)]
    for job in jobs:
        api.wait(job, "running")
    return [api.runtime.env(f"schedulearn-{job}-1-0")["SCHEDULEARN_JOB_TOKEN"] for job in jobs]


def post(api: Api, path: str, token: str, body: Any) -> httpx.Response:
    return httpx.post(f"{api.http.base_url}{path}", json=body, headers={"authorization": f"Bearer {token}"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "most"), [("/api/v1/reports", REPORT, 90), ("/api/v1/reports/membership", MEMBERSHIP, 500)]
)
def test_a_job_that_reports_without_end_is_told_when_to_come_back(
    api: Api, tokens: list[str], path: str, body: Any, most: int
) -> None:
    greedy, modest = tokens
    headers = {"authorization": f"Bearer {greedy}"}
    with ThreadPoolExecutor(8) as pool, httpx.Client(base_url=api.http.base_url, headers=headers, timeout=60) as worker:
        answers = list(pool.map(lambda _: worker.post(path, json=body), range(most)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert {answer.status_code for answer in answers} <= {200, 409, 429}
    assert {answer.json()["code"] for answer in refused} == {"too_many_requests"}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert post(api, path, modest, body).status_code == 200
    assert api.http.post("/api/v1/jobs/none/cancel").status_code == 404


def test_the_body_of_a_refused_report_is_not_even_read(api: Api, tokens: list[str]) -> None:
    """The answer is there before the rest of the body; a server that reads on would wait for that."""
    head = b"POST /api/v1/reports HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {tokens[0]}\r\nContent-Length: 200000\r\n\r\n{{".encode()
    url = api.http.base_url
    answers = []
    with ExitStack() as held:
        for _ in range(200):
            connection = held.enter_context(socket.create_connection((url.host, url.port), timeout=20))
            connection.sendall(head)
            connection.setblocking(False)
            answers.append(connection)
        found, _, _ = select.select(answers, [], [], 20)
        assert found
        found[0].setblocking(True)
        assert found[0].recv(1000).startswith(b"HTTP/1.1 429 ")


def test_a_burst_is_free_and_then_so_many_a_second() -> None:
    now = [0.0]
    rate = RateLimit(2.0, 3, lambda: now[0])
    assert [rate.wait_s("a") for _ in range(5)] == [0, 0, 0, 0.5, 0.5]
    assert rate.wait_s("b") == 0, "another job has its own"
    now[0] = 0.5
    assert [rate.wait_s("a") for _ in range(2)] == [0, 0.5]
    now[0] = 100.0
    assert [rate.wait_s("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_jobs_that_have_gone_are_forgotten() -> None:
    now = [0.0]
    rate = RateLimit(1.0, 3, lambda: now[0])
    for number in range(1000):
        now[0] = float(number)
        rate.wait_s(f"job-{number}")
    assert len(rate._spent) <= 2
