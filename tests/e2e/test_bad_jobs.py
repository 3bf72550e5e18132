"""Jobs that can't work, through the whole service on real runtimes: each fails alone, soon, and says why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from matrices import each
from services import IMAGE, Service

pytestmark = pytest.mark.process


@pytest.fixture(scope="module", params=["process", pytest.param("docker", marks=pytest.mark.docker)])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all jobs of a runtime."""
    runtime = request.param
    env = {"DOCKER_HOST": request.getfixturevalue("docker_url")} if runtime == "docker" else {}
    running = Service(tmp_path_factory.mktemp(runtime) / "data", runtime=runtime, env=env)
    running.start()
    yield running
    running.close()


@pytest.fixture
def image(served: Service, request: pytest.FixtureRequest) -> str:
    """An image that has a shell."""
    return str(request.getfixturevalue("worker_image")) if served.runtime == "docker" else IMAGE


def test_a_command_that_exits_at_once_fails_with_its_code(served: Service, image: str) -> None:
    job = served.wait(served.submit("sh -c 'echo why; exit 3'", container_image=image), "failed")
    assert (job["exit_code"], job["reason"]) == (3, "command_failed")
    assert served.logs(job["id"]) == "why\n"


def test_a_command_that_is_not_there_is_named(served: Service, image: str) -> None:
    job = served.wait(served.submit("no-such-program --flag", container_image=image), "failed")
    assert job["exit_code"] == 127
    assert "no-such-program: command not found" in job["message"]


def test_a_log_that_is_not_text_does_no_harm(served: Service, image: str) -> None:
    job_id = served.submit(r"""sh -c 'printf "caf\351 \377\n"; echo fine'""", container_image=image)
    served.wait(job_id, "succeeded")
    assert served.logs(job_id) == "caf� �\nfine\n"


@pytest.mark.docker
@pytest.mark.parametrize("served", ["docker"], indirect=True)
@each(
    [
        ("schedulearn/nothing-like-this", "unknown image"),
        ("localhost:1/nobody/nothing:1", "can't be pulled"),
    ],
    *("name", "words"),
)
def test_an_image_that_cannot_be_had_fails_its_job_and_no_other(
    served: Service, worker_image: str, name: str, words: str
) -> None:
    bad = served.submit("true", container_image=name)
    good = served.submit("true", container_image=worker_image)
    job = served.wait(bad, "failed")
    assert job["reason"] == "image_unavailable"
    assert words in job["message"]
    served.wait(good, "succeeded")
    assert served.rows("SELECT count(*) FROM lease") == [(0,)]
