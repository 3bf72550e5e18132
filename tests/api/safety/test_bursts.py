"""Very many submissions at once: each is accepted, or refused with 429 and `Retry-After`, and none is lost.
`python -m bench burst` sends 10,000."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.service.burst import send
from services import Service

pytestmark = pytest.mark.process

TOKEN = "correct-horse-battery"
JOBS = 600


def stored(service: Service) -> set[str]:
    return {job_id for (job_id,) in service.rows("SELECT id FROM job")}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("bursts") / "data", gpus=0, token=TOKEN) as running:
        yield running


def test_a_burst_is_accepted_and_stored(service: Service) -> None:
    before = stored(service)
    burst = asyncio.run(send(service.port, JOBS, together=200, token=TOKEN))
    assert (len(burst.accepted), burst.refused, burst.wrong) == (JOBS, 0, Counter())
    assert stored(service) - before == burst.accepted


def test_what_is_over_the_quota_of_a_minute_is_told_when_to_come_back(service: Service) -> None:
    before = stored(service)
    service.call("POST", "/api/v1/users", {"name": "ada", "role": "user"})
    service.call("PUT", "/api/v1/quotas/ada", {"submissions": 250})
    token = service.call("POST", "/api/v1/tokens", {"name": "ada's", "user": "ada"})["token"]
    burst = asyncio.run(send(service.port, JOBS, together=200, token=token))
    assert not burst.wrong
    assert len(burst.accepted) + burst.refused == JOBS
    assert len(burst.accepted) >= 250
    assert burst.refused > 0 or burst.seconds > 60, "a minute later more may come"
    assert stored(service) - before == burst.accepted


def test_what_a_kill_leaves_unanswered_may_be_stored_and_what_was_answered_is(tmp_path: Path) -> None:
    """A burst in whose midst the service dies: no acknowledged job is lost."""
    with Service(tmp_path / "data", gpus=0) as service:

        async def killed() -> set[str]:
            burst = asyncio.create_task(send(service.port, JOBS, together=50))
            while not (await asyncio.to_thread(stored, service)):
                await asyncio.sleep(0)
            service.kill()
            return (await burst).accepted

        accepted = asyncio.run(killed())
        service.start()
        assert accepted <= stored(service)
        assert len(stored(service)) <= JOBS
