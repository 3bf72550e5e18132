"""How many connections to ports of jobs there may be at once, and what one more is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from servers.ports import at_origin, begin_notebook, cookie_for, link_to, logged_in, origin_in, relays, socket_to
from services import Service
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection

from schedulearn.features.interactive.ports.http import CONNECTIONS as FOR_REQUESTS
from schedulearn.features.interactive.terminals.job_terminals import (
    ALTOGETHER,
    CONNECTIONS,
    CONNECTIONS_OF_A_JOB,
    OF_A_JOB,
    OpenTerminal,
    TooManyTerminalsError,
)
from schedulearn.features.interactive.worker import Interactive


@pytest.mark.process
def test_one_connection_more_than_a_job_may_have_is_told_so_and_the_others_go_on(service: Service) -> None:
    job, other = begin_notebook(service), begin_notebook(service)
    link = link_to(service, job)
    origin, cookie = origin_in(link), cookie_for(service, link)

    def opened() -> ClientConnection:
        return stack.enter_context(socket_to(service, origin, cookie, origin=origin))

    def has_room() -> bool:
        try:
            with socket_to(service, origin, cookie, origin=origin):
                return True
        except InvalidStatus:
            return False

    with ExitStack() as stack:
        sockets = [opened() for _ in range(CONNECTIONS_OF_A_JOB)]
        with pytest.raises(InvalidStatus) as refused:
            opened()
        answer = refused.value.response
        assert answer.status_code == 503
        assert f"has {CONNECTIONS_OF_A_JOB} connections open" in bytes(answer.body or b"").decode()
        with at_origin(service, origin, cookie=cookie) as client:
            told = client.get("/")
            assert (told.status_code, told.json()["code"]) == (503, "too_many_terminals")
        with logged_in(service, other) as client:
            assert client.get("/").status_code == 200, "another job has its own"
        for each in (sockets[0], sockets[-1]):
            each.send("ping")
            assert each.recv(timeout=60) == "ping"
        sockets[0].close()
        wait_for(has_room, seconds=60, what="room for one more")
    wait_for(lambda: not relays(service, job), seconds=60, what="the end of all relays")


@pytest.mark.process
def test_requests_take_turns_and_all_are_answered(service: Service, tmp_path: Path) -> None:
    job, go = begin_notebook(service), tmp_path / "go"
    with logged_in(service, job) as client, ThreadPoolExecutor(FOR_REQUESTS + 10) as threads:
        asked = [threads.submit(client.get, f"/hold?{go}", timeout=120) for _ in range(FOR_REQUESTS + 10)]
        wait_for(lambda: f"holds {FOR_REQUESTS}" in service.logs(job), seconds=60, what="as many as may be")
        go.touch()
        assert {answer.result().text for answer in asked} == {"held"}
    assert f"holds {FOR_REQUESTS + 1}" not in service.logs(job)


@pytest.mark.slow
def test_all_jobs_together_have_a_bound_too(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=64) as c:
        jobs = c.submit(*[spec() for _ in range(1 + max(ALTOGETHER // OF_A_JOB, CONNECTIONS // CONNECTIONS_OF_A_JOB))])
        for job in jobs:
            c.wait(job, "running")
        *full, last = jobs
        terminals = Interactive.of(c.cluster).terminals

        def shell(job: str) -> OpenTerminal:
            return terminals.open(job, None, ["sh"], None)

        def connection(job: str) -> OpenTerminal:
            return terminals.connect(job, None, 8888)

        for begin, each, altogether, what in (
            (shell, OF_A_JOB, ALTOGETHER, "terminals"),
            (connection, CONNECTIONS_OF_A_JOB, CONNECTIONS, "connections"),
        ):
            opened = [begin(job) for job in full[: altogether // each] for _ in range(each)]
            assert len(opened) == altogether
            with pytest.raises(TooManyTerminalsError, match=f"{altogether} {what} are open in this service"):
                begin(last)
            opened.pop().close()
            opened.append(begin(last))
            for one in opened:
                one.close()
