"""Registry logins: a real engine pulls with them, and what it pulled is for those who have such a login."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager

import httpx
import pytest
from benches import tools_image
from registry import Registry
from services import Service, invoke

from schedulearn.scheduler.core.job_image import layer_of, layer_tag, layered
from schedulearn.scheduler.runtimes.docker.api import Engine

pytestmark = pytest.mark.docker
ADAS, BENS = "correct horse battery", "staple of ben"


@pytest.fixture(scope="module")
def served(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("logins") / "data"
    with Service(data, runtime="docker", env={"DOCKER_HOST": engine_url}, token="the-admin's-own-token") as running:
        yield running


@pytest.fixture(scope="module")
def tokens(served: Service) -> Mapping[str, str]:
    roles = {"ada": "user", "ben": "user", "eve": "viewer"}
    return {name: served.add_person(name, role) for name, role in roles.items()}


@pytest.fixture
def registry(engine_url: str) -> Iterator[Registry]:
    with Registry(logins={"ada": ADAS, "ben": BENS}) as made:
        yield made
        engine = Engine(engine_url)
        for image in engine.api.images(name=f"{made.address}/image"):
            engine.api.remove_image(image["Id"], force=True)
        engine.close()


@pytest.fixture
def command(served: Service, tokens: Mapping[str, str]) -> Callable[..., str]:
    def call(user: str, *words: str, stdin: str = "", code: int = 0) -> str:
        done = invoke(*words, stdin=stdin, code=code, url=served.url, SCHEDULEARN_TOKEN=tokens[user])
        return done.out + done.err

    return call


@contextmanager
def known(served: Service, token: str) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=served.url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


def run(served: Service, user: str, image: str, **fields: object) -> dict[str, object]:
    job = served.submit("true", container_image=image, user=user, **fields)
    return served.wait(job, "succeeded", "failed")


def end_of(job: Mapping[str, object]) -> object:
    return job["state"] if job["state"] == "succeeded" else job["reason"]


def test_an_image_pulled_with_a_login_is_not_for_those_without(
    served: Service, registry: Registry, command: Callable[..., str], engine_url: str
) -> None:
    digest = registry.put("1", tools_image(), own=uuid.uuid4().hex)
    image = registry.image("1")
    assert end_of(run(served, "ada", image)) == "image_unavailable"
    told = command("ada", "registry", "login", registry.address, "--username", "ada", stdin=f"{ADAS}\n")
    assert f"logged in to {registry.address} for ada: {registry.address} accepts it." in told
    first = run(served, "ada", image)
    assert end_of(first) == "succeeded", first["message"]

    engine = Engine(engine_url)
    image_id = engine.api.inspect_image(image)["Id"]
    engine.api.tag(image_id, "schedulearn-test/other-name", tag="1")
    engine.close()
    by_digest = f"{registry.address}/image@{digest}"
    names = [image, by_digest, image_id, image_id.removeprefix("sha256:")[:12], "schedulearn-test/other-name:1"]
    refused = {name: end_of(run(served, "ben", name)) for name in names}
    assert refused == dict.fromkeys(names, "image_unavailable")
    asked = registry.pulls
    assert end_of(run(served, "ada", image)) == "succeeded", "it stays on the host for its owner"
    assert registry.pulls == asked

    command("ben", "registry", "login", f"https://{registry.address}/v2/", "-u", "ben", stdin=BENS)
    assert end_of(run(served, "ben", image)) == "succeeded", "the registry lets ben"
    assert registry.pulls > asked
    command("ben", "registry", "logout", registry.address)
    assert end_of(run(served, "ben", image)) == "image_unavailable"
    registry.logins.clear()
    assert end_of(run(served, "ben", image)) == "succeeded", "it is free for all now"
    registry.logins["ada"] = ADAS
    assert end_of(run(served, "ben", by_digest)) == "succeeded", "it was free, so it stays free"


def test_a_layer_over_a_private_image_is_private_too(
    served: Service, registry: Registry, command: Callable[..., str], engine_url: str
) -> None:
    registry.put("base", tools_image(), own=uuid.uuid4().hex)
    image = registry.image("base")
    command("ada", "registry", "login", registry.address, "--username", "ada", stdin=ADAS)
    assert end_of(run(served, "ada", image)) == "succeeded"
    engine, made = Engine(engine_url), layer_tag(layered(image, layer_of(["einops"])))
    try:
        base = engine.api.inspect_image(image)["Id"]
        container = engine.api.create_container(image, command=["true"])
        repository, tag = made.split(":")
        labels = {"schedulearn.layer.base": base}
        engine.api.commit(container, repository=repository, tag=tag, conf={"Labels": labels})
        engine.api.remove_container(container)
        assert end_of(run(served, "ben", image, requirements=["einops"])) == "image_unavailable"
        assert end_of(run(served, "ben", made)) == "image_unavailable"
        assert end_of(run(served, "ada", image, requirements=["einops"])) == "succeeded"
    finally:
        engine.api.remove_image(made, force=True)
        engine.close()


def test_refused_logins_are_not_stored_and_no_password_is_told(
    served: Service, registry: Registry, command: Callable[..., str], tokens: Mapping[str, str]
) -> None:
    wrong = "hunter2 hunter2"
    told = command("ben", "registry", "login", registry.address, "--username", "ben", stdin=wrong, code=1)
    assert f"{registry.address} refuses this login" in told
    assert registry.address not in command("ben", "registry", "ls")
    registry.put("1", tools_image())
    command("ada", "registry", "login", registry.address, "--username", "ada", stdin=ADAS)
    registry.logins["ada"] = "another by now"
    job = run(served, "ada", registry.image("1"))
    assert end_of(job) == "image_unavailable"
    with known(served, tokens["ada"]) as ada:
        seen = [ada.get(f"/api/v1/{path}").text for path in (f"jobs/{job['id']}", "registries", "events")]
    disk = served.http.get("/api/v1/hosts/local/disk").text
    with closing(sqlite3.connect(served.data / "schedulearn.db")) as database:
        stored = "\n".join(database.iterdump())
    for text in (told, *seen, disk, stored, served.log()):
        for secret in (wrong, ADAS, "YWRhOmNvcnJlY3Qg"):
            assert secret not in text


def test_a_registry_that_cannot_be_asked_is_told_apart(served: Service, command: Callable[..., str]) -> None:
    with Registry() as gone:
        address = gone.address
    told = command("ada", "registry", "login", address, "--username", "ada", stdin=ADAS)
    assert f"{address} could not be asked, on local: " in told
    assert "The login is stored unchecked." in told
    assert ADAS not in told
    assert address in command("ada", "registry", "ls")
    assert address not in command("ben", "registry", "ls")
    command("ada", "registry", "logout", address)
    assert address not in command("ada", "registry", "ls")


def test_logins_of_groups_and_of_everybody(
    served: Service, registry: Registry, command: Callable[..., str], engine_url: str
) -> None:
    registry.put("group", tools_image(), own=uuid.uuid4().hex)
    registry.put("all", tools_image(), own=uuid.uuid4().hex)
    image = registry.image("group")
    for scope in (["--group", "vision"], ["--shared"]):
        told = command("ben", "registry", "login", registry.address, "-u", "ben", *scope, stdin=BENS, code=1)
        assert "only admins" in told
    served.call("PUT", "/api/v1/groups/vision", {})
    served.call("PUT", "/api/v1/groups/vision/members/ada")
    served.invoke("registry", "login", registry.address, "-u", "ben", "--group", "vision", stdin=BENS)
    assert "group vision" in command("ada", "registry", "ls")
    assert "vision" not in command("ben", "registry", "ls")
    assert end_of(run(served, "ada", image)) == "succeeded"
    assert end_of(run(served, "ben", image)) == "image_unavailable"
    served.http.delete("/api/v1/groups/vision/members/ada").raise_for_status()
    assert end_of(run(served, "ada", image)) == "image_unavailable", "she has left the group"
    served.invoke("registry", "login", registry.address, "-u", "ben", "--shared", stdin=BENS)
    for user in ("ada", "ben"):
        assert end_of(run(served, user, image)) == "succeeded", user
    served.http.delete("/api/v1/groups/vision").raise_for_status()
    served.invoke("registry", "logout", registry.address, "--shared")
    assert registry.address not in served.invoke("registry", "ls").out


def test_viewers_have_no_logins(served: Service, tokens: Mapping[str, str]) -> None:
    with known(served, tokens["eve"]) as eve:
        body = {"username": "eve", "password": "12345678"}
        answers = [
            eve.get("/api/v1/registries"),
            eve.put("/api/v1/registries/reg.lab", json=body),
            eve.delete("/api/v1/registries/reg.lab"),
        ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
