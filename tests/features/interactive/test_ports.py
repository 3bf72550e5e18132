"""A port of a job at an address of the service: HTTP and WebSockets, who may, and what stays apart."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from clusters import wait_for
from servers.ports import at_origin, begin_notebook, cookie_for, link_to, logged_in, origin_in, relays, socket_to
from services import Service
from websockets.exceptions import InvalidStatus

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def job(service: Service) -> str:
    return begin_notebook(service)


@pytest.fixture(scope="module")
def guarded_job(guarded: Service) -> str:
    return begin_notebook(guarded)


def test_requests_answers_and_sockets_go_through(service: Service, job: str) -> None:
    link = link_to(service, job)
    origin, cookie = origin_in(link), cookie_for(service, link)
    assert urlsplit(origin).netloc == f"notebook-{job}.localhost:{service.port}"
    sent = os.urandom(700_000)
    with at_origin(service, origin, cookie=cookie) as client:
        assert "Notebook" in client.get("/").text
        assert client.post("/data", content=sent, headers={"origin": origin}).text == "got 700000"
        assert client.head("/").status_code == 501, "what the server of the job says of HEAD"
    with socket_to(service, origin, cookie, origin=origin) as opened:
        for text in ("ping", "pong"):
            opened.send(text)
            assert opened.recv(timeout=20) == text
    wait_for(lambda: not relays(service, job), seconds=60, what="the end of all relays")


def test_the_page_s_link_leads_there(service: Service, job: str) -> None:
    there = service.http.get(f"/api/v1/jobs/{job}/ports/notebook", follow_redirects=False)
    assert there.status_code == 303
    assert there.headers["location"].startswith(f"http://notebook-{job}.localhost:{service.port}/.schedulearn/enter?")


def test_a_link_opens_once_and_only_its_own_port(service: Service, job: str) -> None:
    link, other = link_to(service, job), link_to(service, job)
    path = link.removeprefix(origin_in(link))
    with at_origin(service, "http://other-" + link.removeprefix("http://notebook-")) as elsewhere:
        assert elsewhere.get(path).status_code == 403
    with at_origin(service, other) as client:
        used = other.removeprefix(origin_in(other))
        assert [client.get(used).status_code for _ in range(2)] == [303, 403]


def test_nobody_gets_in_without(service: Service, job: str) -> None:
    origin = origin_in(link_to(service, job))
    for cookie in ("", "schedulearn_port=guess", "schedulearn_session=guess"):
        with at_origin(service, origin, cookie=cookie, accept="text/html") as client:
            refused = client.get("/")
            assert refused.status_code == 401
            assert f"/ui/jobs/{job}" in refused.text
            assert client.post("/data", content=b"x").status_code == 401
        with pytest.raises(InvalidStatus, match="401"):
            socket_to(service, origin, cookie)


def test_the_job_sees_no_cookie_or_token_of_the_service(guarded: Service, guarded_job: str) -> None:
    link = link_to(guarded, guarded_job)
    cookie = f"{cookie_for(guarded, link)}; schedulearn_session=secret; own=1"
    with at_origin(guarded, link, cookie=cookie, referer=f"{origin_in(link)}/x") as client:
        seen = client.get("/headers", headers={"connection": "keep-alive, x-hop", "x-hop": "1", "te": "trailers"}).text
    port = guarded.job(guarded_job)["ports"]["notebook"]
    assert "'Cookie': 'own=1'" in seen.title() or "'cookie': 'own=1'" in seen
    assert f"localhost:{port}" in seen
    assert "x-hop" not in seen.lower()
    assert "trailers" not in seen
    with at_origin(guarded, link, authorization=f"Bearer {guarded.token}") as client:
        by_token = client.get("/headers")
    assert by_token.status_code == 200
    assert guarded.token not in by_token.text
    assert re.search(r"'Bearer [0-9a-f]{40}'", by_token.text), "what the job knows the service by"


def test_an_answer_reaches_no_further_than_its_origin(service: Service, job: str) -> None:
    with logged_in(service, job) as client:
        answer = client.get("/login")
    assert answer.headers["location"] == f"http://notebook-{job}.localhost:{service.port}/lab?x=1"
    assert answer.headers.get_list("set-cookie") == ["own=1; Path=/"]
    assert not {"clear-site-data", "alt-svc", "content-security-policy"} & set(answer.headers)


def test_pages_of_other_origins_may_not_use_it(service: Service, job: str) -> None:
    link = link_to(service, job)
    origin, cookie = origin_in(link), cookie_for(service, link)
    with at_origin(service, origin, cookie=cookie) as client:
        for headers in (
            {"origin": service.url},
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
        ):
            assert client.get("/", headers=headers).status_code == 403
        follows = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        assert client.get("/", headers=follows).status_code == 200
        assert client.post("/data", content=b"x", headers=follows).status_code == 403
        assert client.get("/", headers={"x-forwarded-for": "1.2.3.4"}).status_code == 403
    with pytest.raises(InvalidStatus, match="403"):
        socket_to(service, origin, cookie, origin=service.url)


def test_it_can_t_use_the_service(service: Service, job: str) -> None:
    """Neither at its own origin, where there is no API, nor at that of the service."""
    link = link_to(service, job)
    cookie = cookie_for(service, link)
    with at_origin(service, link, cookie=cookie) as client:
        assert "items" not in client.get("/api/v1/jobs").text
        assert client.get("/healthz").json is not None
        assert "version" not in client.get("/healthz").text
    for headers in ({"origin": origin_in(link)}, {"sec-fetch-site": "cross-site"}):
        refused = service.http.post(f"/api/v1/jobs/{job}/cancel", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "foreign_origin")


def test_a_stranger_is_refused_and_an_admin_is_not(guarded: Service) -> None:
    for name in ("ada", "ben"):
        guarded.call("POST", "/api/v1/users", {"name": name, "role": "user"})
    tokens = {
        name: guarded.call("POST", "/api/v1/tokens", {"name": name, "user": name})["token"] for name in ("ada", "ben")
    }
    job = begin_notebook(guarded, user="ada")
    path = f"/api/v1/jobs/{job}/ports/notebook"
    with httpx.Client(base_url=guarded.url, trust_env=False, timeout=30) as nobody:
        assert nobody.post(path).status_code == nobody.get(path).status_code == 401
        of_ben = {"authorization": f"Bearer {tokens['ben']}"}
        assert nobody.post(path, headers=of_ben).status_code == nobody.get(path, headers=of_ben).status_code == 403
        link = nobody.post(path, headers={"authorization": f"Bearer {tokens['ada']}"}).json()["url"]
    with at_origin(guarded, link, authorization=f"Bearer {tokens['ben']}") as client:
        assert client.get("/").status_code == 404
    cookie = cookie_for(guarded, link)
    with at_origin(guarded, link, cookie=cookie) as client:
        assert client.get("/").status_code == 200
        [mine] = [each for each in guarded.call("GET", "/api/v1/tokens")["items"] if each["name"] == "ada"]
        assert guarded.http.delete(f"/api/v1/tokens/{mine['id']}").status_code == 204
        assert client.get("/").status_code == 401, "it ends with what they were known by"
    with logged_in(guarded, job) as admin:
        assert admin.get("/").status_code == 200


def test_it_ends_with_the_session_of_the_page(guarded: Service, guarded_job: str) -> None:
    with httpx.Client(base_url=guarded.url, trust_env=False, timeout=30) as page:
        page.post("/api/v1/session", json={"token": guarded.token})
        link = page.post(f"/api/v1/jobs/{guarded_job}/ports/notebook").json()["url"]
        cookie = cookie_for(guarded, link)
        with at_origin(guarded, link, cookie=cookie) as client:
            assert client.get("/").status_code == 200
            with socket_to(guarded, origin_in(link), cookie) as opened:
                page.delete("/api/v1/session")
                assert client.get("/").status_code == 401
                with pytest.raises(Exception, match=r"1008|1001|1000"):
                    opened.recv(timeout=30)
    wait_for(lambda: not relays(guarded, guarded_job), seconds=60, what="the end of all relays")


def test_it_ends_with_the_job(service: Service) -> None:
    job = begin_notebook(service)
    link = link_to(service, job)
    cookie = cookie_for(service, link)
    with at_origin(service, link, cookie=cookie, accept="text/html") as client:
        assert client.get("/").status_code == 200
        service.http.post(f"/api/v1/jobs/{job}/cancel")
        service.wait(job, "cancelled")
        ended = client.get("/")
        assert (ended.status_code, "has ended" in ended.text) == (410, True)
        assert client.get("/").status_code == 401, "nobody is logged in there any more"
    assert service.http.post(f"/api/v1/jobs/{job}/ports/notebook").status_code == 409
    wait_for(lambda: not relays(service, job), seconds=60, what="the end of all relays")


def test_closing_the_browser_ends_what_listens(service: Service, job: str) -> None:
    with logged_in(service, job) as client, client.stream("GET", "/stream") as answer:
        pieces = answer.iter_bytes()
        assert next(pieces).startswith(b"data: tick")
        assert relays(service, job)
    wait_for(
        lambda: "the listener has gone" in service.logs(job), seconds=60, what="the job to see that nobody listens"
    )
    wait_for(lambda: not relays(service, job), seconds=60, what="the end of all relays")


def test_a_job_that_waits_or_does_not_listen_says_so(service: Service) -> None:
    for gpus, status, said in ((1000, 503, "is queued"), (1, 502, "nothing listens")):
        job = service.submit_shell("sleep 1000", gpus, ports={"web": 9})
        if status == 502:
            service.wait(job, "running")
        link = link_to(service, job, "web")
        cookie = cookie_for(service, link)
        with at_origin(service, link, cookie=cookie, accept="text/html") as client:
            answer = client.get("/")
            assert answer.status_code == status
            assert said in answer.text
            assert 'http-equiv="refresh"' in answer.text
        with at_origin(service, link, cookie=cookie) as client:
            assert client.get("/").headers["content-type"] == "application/problem+json"
        service.http.post(f"/api/v1/jobs/{job}/cancel")


def test_where_no_origin_can_be_it_names_forward(tmp_path: Path, guarded: Service, guarded_job: str) -> None:
    port = guarded.job(guarded_job)["ports"]["notebook"]
    elsewhere = {"host": "cluster.example.org"}
    refused = guarded.http.post(f"/api/v1/jobs/{guarded_job}/ports/notebook", headers=elsewhere)
    assert (refused.status_code, refused.json()["code"]) == (409, "no_port_address")
    assert f"schedulearn forward {guarded_job} {port}" in refused.json()["detail"]
    env = {"SCHEDULEARN_PORTS_DOMAIN": "ports.example.net"}
    with Service(tmp_path / "data", token=guarded.token, env=env) as service:
        job = begin_notebook(service)
        link = service.http.post(f"/api/v1/jobs/{job}/ports/notebook", headers=elsewhere).json()["url"]
        assert origin_in(link) == f"http://notebook-{job}.ports.example.net"
        cookie = cookie_for(service, link)
        with at_origin(service, link, cookie=cookie) as client:
            assert "Notebook" in client.get("/").text
        service.cancel_all()


def test_wrong_ports_are_refused(service: Service) -> None:
    for ports in (
        {"Web": 80},
        {"a_b": 80},
        {"web": 0},
        {"web": 65_536},
        {"-a": 80},
        {"a-": 80},
        {"a" * 33: 80},
        [8888],
    ):
        body = {
            "name": "x", "type": "x", "container_image": "plain", "command": "true", "required_gpus": 0, "ports": ports,
        }  # fmt: skip
        assert service.http.post("/api/v1/jobs", json=body).status_code == 422, ports
    body = {**body, "ports": {}, "idle_timeout": 60}
    assert "idle_timeout needs ports" in service.http.post("/api/v1/jobs", json=body).text


def test_a_job_that_nobody_uses_ends(service: Service) -> None:
    job = begin_notebook(service, idle_timeout=3)
    link = link_to(service, job)
    with socket_to(service, origin_in(link), cookie_for(service, link)) as opened:
        opened.send("ping")
        assert opened.recv(timeout=20) == "ping"
        assert service.job(job)["idle_ends_at"] is None, "somebody is connected"
        assert service.job(job)["state"] == "running"
    ended = service.wait(job, "timeout")
    assert ended["message"] == "Its ports had no connections for its idle_timeout of 3 s."
    assert ended["reason"] == "time_limit"
    assert ended["idle_ends_at"] is None


def test_the_command_prints_a_link(service: Service, job: str) -> None:
    link = service.run("open", job).out.strip()
    assert link.startswith(f"http://notebook-{job}.localhost:{service.port}/")
    cookie_for(service, link)
    assert "has no port 'web'; it has: notebook" in service.run("open", job, "web", code=1).err
    plain = service.submit_shell("sleep 1000")
    assert "has no ports" in service.run("open", plain, code=1).err


def test_a_service_that_stops_leaves_nothing_behind(tmp_path: Path) -> None:
    with Service(tmp_path / "data") as service:
        job = begin_notebook(service)
        link = link_to(service, job)
        cookie = cookie_for(service, link)
        with socket_to(service, origin_in(link), cookie) as opened, at_origin(service, link, cookie=cookie) as client:
            opened.send("ping")
            assert opened.recv(timeout=20) == "ping"
            with client.stream("GET", "/stream") as answer:
                pieces = answer.iter_bytes()
                assert next(pieces)
                stopped = service.stop()
        assert (stopped.code, stopped.errors) == (0, "")
        wait_for(lambda: not relays(service, job), seconds=60, what="the end of all relays")
        service.start()
        assert service.job(job)["state"] == "running"
        with at_origin(service, link, cookie=cookie) as client:
            assert client.get("/").status_code == 401, "logins are those of the service of before"
        service.cancel_all()
