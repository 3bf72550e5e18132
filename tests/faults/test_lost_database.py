"""A real service whose database files are removed while it runs: no acknowledged job is lost."""

import re
from pathlib import Path

import pytest
from clusters import wait_for
from services import Service

pytestmark = pytest.mark.process


def remove_log(data: Path) -> None:
    (data / "schedulearn.db-wal").unlink()


def remove_database(data: Path) -> None:
    for each in data.glob("schedulearn.db*"):
        each.unlink()


HARMED = {remove_log: r"schedulearn\.db-wal was (removed|replaced)", remove_database: r"schedulearn\.db was removed"}
"""A reader that connects meanwhile makes a log anew, but no database."""


def test_a_service_without_its_database_saves_it_and_ends(tmp_path: Path) -> None:
    service = Service(tmp_path / "data")
    service.start()
    for harm, told in HARMED.items():
        acknowledged = [service.submit("true") for _ in range(4)]
        harm(service.data)
        process = service.process
        assert process is not None
        wait_for(process.poll, seconds=30, what=f"its end after {harm.__name__}")
        assert process.returncode == 1
        assert re.search(rf"{told} while the service used it\. Nothing was lost", service.log()), service.log()
        service.kill()  # what is left of it
        service.start()
        for job_id in acknowledged:
            service.wait(job_id, "succeeded")
    service.cancel_all()
    assert service.stop().code == 0
    service.http.close()
