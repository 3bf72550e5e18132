"""`schedulearn search` and `submit --as-found`, as users run them: real trials of a real service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from services import IMAGE, Service

YAML = f"""
name: naps
job:
  container_image: {IMAGE}
  launcher: none
  family: naps
  command: sh -c 'sleep $0' 0.{{batch_size}}
gpus: [1]
batch_sizes: [2, 9]
goal: time
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("searches") / "data") as served:
        yield served


@pytest.fixture(scope="module")
def found(service: Service, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The id of a search that tried both configurations."""
    file = tmp_path_factory.mktemp("file") / "naps.yaml"
    file.write_text(YAML)
    told = service.invoke("search", "start", "--wait", str(file)).out
    assert "completed" in told
    assert "Found: required_gpus 1, batch_size " in told
    return told.split()[0]


@pytest.mark.long
def test_it_shows_its_trials_what_was_found_and_why_it_ended(service: Service, found: str) -> None:
    lines = service.invoke("search", "show", "last").out.splitlines()
    assert lines[0].startswith(f"{found} completed")
    assert lines[0].endswith("Every configuration was tried.")
    assert lines[1] == "2 trials of at most 10, among 2 configurations."
    assert service.invoke("search", "show", found, "--json").json["best"]["required_gpus"] == 1


def test_a_search_starts_in_the_background_and_is_cancelled_as_a_sweep(service: Service) -> None:
    slow = YAML.replace("name: naps", "name: slow").replace("sleep $0", "sleep 6$0")
    told = service.invoke("search", "-", stdin=slow).out
    search = told.split()[0]
    assert told.splitlines()[1].endswith("trials of at most 10, among 2 configurations.")
    service.invoke("sweep", "cancel", search)
    service.invoke("sweep", "wait", search, code=130)
    assert service.invoke("search", "show", search, "--json").json["found"] is None


def test_a_job_of_the_family_gets_what_was_found(service: Service, found: str) -> None:
    answer = service.invoke("search", "show", found, "--json").json["found"]
    one = ("submit", "-d", "--json", "--image", IMAGE, "--launcher", "none", "--as-found", "--family")
    job = service.invoke(*one, "naps", "--", "true").json
    assert (job["required_gpus"], job["batch_size"]) == (1, answer["batch_size"])
    assert "no search of yours" in service.invoke(*one, "strangers", "--", "true", code=1).err


def test_what_is_wrong_is_told(service: Service) -> None:
    assert "one object, with name, job and gpus" in service.invoke("search", "-", stdin="- 1", code=2).err
    assert "gpus" in service.invoke("search", "-", stdin=YAML.replace("gpus: [1]", "gpus: [0]"), code=1).err
    assert "there is no sweep" in service.invoke("search", "show", "0000000000", code=1).err
