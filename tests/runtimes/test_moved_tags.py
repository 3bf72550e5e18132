"""A tag that was moved in its registry: it is pulled when somebody or a job asks, and jobs show what they ran."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benches import tools_image, wait_for
from registry import Registry
from services import Service

from schedulearn.scheduler.runtimes.docker.api import Engine

pytestmark = pytest.mark.docker


@pytest.fixture
def registry(engine_url: str) -> Iterator[Registry]:
    with Registry() as made:
        yield made
        engine = Engine(engine_url)
        for image in engine.api.images(name=f"{made.address}/image"):
            engine.api.remove_image(image["Id"], force=True)
        engine.close()


@pytest.fixture(scope="module")
def served(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("moved") / "data"
    with Service(data, runtime="docker", env={"DOCKER_HOST": engine_url}) as running:
        yield running


def test_a_moved_tag_is_pulled_anew_when_asked_and_not_by_a_job_that_takes_what_is_there(
    registry: Registry, served: Service
) -> None:
    tools = tools_image()
    old = registry.put("moving", tools, version="1")
    image = registry.image("moving")

    def ran() -> str:
        job = served.wait(served.submit("true", container_image=image), "succeeded", "failed")
        assert job["state"] == "succeeded", job["message"]
        return str(job["tasks"][0]["image"])

    def pull() -> list[dict[str, object]]:
        answer = served.http.post("/api/v1/hosts/local/images", json={"image": image})
        assert answer.status_code == 202
        wait_for(lambda: not any(f["percent"] is not None for f in fetches()), "the end of the pull")
        return fetches()

    def fetches() -> list[dict[str, object]]:
        found: list[dict[str, object]] = served.http.get("/api/v1/hosts/local/disk").json()["fetches"]
        return found

    assert ran() == f"{registry.address}/{registry.repository}@{old}"
    new = registry.put("moving", tools, version="2")
    asked = registry.pulls
    assert ran() == f"{registry.address}/{registry.repository}@{old}"
    assert registry.pulls == asked, "a job takes what is there"
    wait_for(lambda: not pull() and registry.pulls > asked, "the pull")
    wait_for(lambda: ran() == f"{registry.address}/{registry.repository}@{new}", "the new image")


def test_a_job_may_ask_for_what_its_tag_means_now(registry: Registry, served: Service) -> None:
    tools = tools_image()
    image, name = registry.image("asked"), f"{registry.address}/{registry.repository}"
    for version in ("1", "2"):
        digest = registry.put("asked", tools, version=version)
        asked = registry.pulls
        job = served.wait(served.submit("true", container_image=image, pull="always"), "succeeded", "failed")
        assert (job["state"], job["tasks"][0]["image"]) == ("succeeded", f"{name}@{digest}"), job["message"]
        assert registry.pulls > asked
        shown = served.invoke("show", job["id"]).out
        assert f"{name}@{digest}" in shown
    registry.remove("asked")
    gone = served.wait(served.submit("true", container_image=image, pull="always"), "succeeded", "failed")
    assert (gone["state"], gone["reason"]) == ("failed", "image_unavailable")
    there = served.wait(served.submit("true", container_image=image), "succeeded", "failed")
    assert there["state"] == "succeeded", "what is there is still good for others"
