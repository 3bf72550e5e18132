"""A real service whose database files are removed while it runs: no acknowledged job is lost."""

from collections.abc import Callable
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


@pytest.mark.parametrize("harm", [remove_log, remove_database])
def test_a_service_without_its_database_saves_it_and_ends(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    service = Service(tmp_path / "data")
    service.start()
    acknowledged = [service.submit("true") for _ in range(4)]
    harm(service.data)
    process = service.process
    assert process is not None
    wait_for(lambda: process.poll() is not None, seconds=30, what="its end")
    assert process.returncode == 1
    assert "was removed while the service used it. Nothing was lost" in service.log()
    service.kill()  # what is left of it
    service.start()
    for job_id in acknowledged:
        service.wait(job_id, "succeeded")
    service.cancel_all()
    assert service.stop().code == 0
    service.http.close()
