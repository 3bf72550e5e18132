"""The README snippets of the original Schedulearn, unchanged."""

from pathlib import Path

import pytest
from apis import FIVE_KEYS, Api, serve_api
from clusters import wait_for
from matrices import each
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect


def test_submit_list_look_and_delete_at_the_root(api: Api) -> None:
    answer = api.http.post("/jobs", json=FIVE_KEYS)
    assert answer.status_code == 201
    job = answer.json()["id"]
    assert answer.json()["message"]
    listed = api.http.get("/jobs").json()
    assert isinstance(listed, list)
    assert listed[0]["id"] == job
    assert api.http.get(f"/jobs/{job}").json()["name"] == FIVE_KEYS["name"]
    assert api.http.delete(f"/jobs/{job}").status_code == 200
    api.wait(job, "cancelled")


def test_numbers_come_as_text_as_httpie_sends_them(api: Api) -> None:
    """`http post localhost:5000/jobs name="Pytorch Mnist" ... required_gpus=4`, as its README has it."""
    answer = api.http.post("/jobs", json={**FIVE_KEYS, "required_gpus": "4"})
    assert (answer.status_code, answer.json()["required_gpus"]) == (201, 4)
    for wrong in ("", "4.0", "-1", "４", "1" * 5000, "many"):
        assert api.http.post("/jobs", json={**FIVE_KEYS, "required_gpus": wrong}).status_code == 422


@pytest.mark.parametrize("number", ["required_gpus", "no_of_gpus"])
def test_the_path_of_its_first_readme(api: Api, number: str) -> None:
    keys = {key: value for key, value in FIVE_KEYS.items() if key not in ("container_image", "required_gpus")}
    answer = api.http.post("/api/v1/post", json={**keys, "image": "horovod/horovod:latest", number: "1"})
    assert answer.status_code == 201, answer.text
    job = api.job(answer.json()["id"])
    assert (job["container_image"], job["required_gpus"]) == ("horovod/horovod:latest", 1)
    assert api.http.post("/api/v1/post", json=[]).status_code == 422


def test_answers_have_the_names_of_its_table_of_jobs(api: Api) -> None:
    """Its page colours a row by created_at, started_at and completed_at; its sockets read container_name."""
    job = api.http.post("/jobs", json=FIVE_KEYS).json()
    assert (job["created_at"], job["completed_at"], job["container_name"]) == (job["submitted_at"], None, "")
    api.wait(job["id"], "running")
    for shown in (api.http.get("/jobs").json()[0], api.http.get(f"/jobs/{job['id']}").json()):
        assert (shown["status"], shown["trained_at"]) == ("running", "local")
        assert shown["container_name"] == f"schedulearn-{job['id']}-1-0"
        assert (shown["created_at"], shown["completed_at"]) == (job["created_at"], None)
    api.runtime.finish(f"schedulearn-{job['id']}-1-0")
    api.wait(job["id"], "succeeded")
    ended = api.http.get(f"/jobs/{job['id']}").json()
    assert (ended["status"], ended["completed_at"]) == ("succeeded", ended["finished_at"])
    assert ended["completed_at"]
    assert "status" not in api.job(job["id"])


def test_delete_of_a_job_that_has_ended_takes_it_off_the_list(api: Api) -> None:
    job = api.submit()
    api.wait(job, "running")
    api.runtime.finish(f"schedulearn-{job}-1-0")
    api.wait(job, "succeeded")
    wait_for(lambda: api.http.get(f"/api/v1/jobs/{job}").json()["removed"], what="its containers to go")
    answer = api.http.delete(f"/jobs/{job}")
    assert (answer.status_code, answer.json()) == (200, {"message": "Job deleted successfully"})
    assert api.http.delete(f"/jobs/{job}").status_code == 404
    assert api.http.get("/jobs").json() == []


def test_its_page_may_use_a_service_that_names_its_origin(tmp_path: Path) -> None:
    """What a browser sends for `fetch("http://localhost:5000/jobs", {method: "POST", ...})` of its form."""
    origin = {"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}
    wanted = {
        "access-control-request-method": "POST",
        "access-control-request-headers": "access-control-allow-origin,content-type",
    }
    with serve_api(tmp_path / "named", page_origins=["http://localhost:3000"]) as api:
        asked = api.http.options("/jobs", headers={**origin, **wanted})
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, origin["origin"])
        sent = api.http.post("/jobs", json=FIVE_KEYS, headers={**origin, "access-control-allow-origin": "*"})
        assert (sent.status_code, sent.headers["access-control-allow-origin"]) == (201, origin["origin"])
        assert "access-control-allow-credentials" not in sent.headers
        url = str(api.http.base_url).replace("http", "ws")
        with connect(f"{url}/jobs/{sent.json()['id']}/logs", additional_headers=origin):
            pass
        for other in ({**origin, "cookie": "schedulearn_session=x"}, {**origin, "origin": "http://evil.example"}):
            refused = api.http.post("/jobs", json=FIVE_KEYS, headers=other)
            assert (refused.status_code, refused.json()["code"]) == (403, "foreign_origin")
    with serve_api(tmp_path / "none") as api:
        assert api.http.post("/jobs", json=FIVE_KEYS, headers=origin).status_code == 403
        assert "access-control-allow-origin" not in api.http.get("/jobs", headers=origin).headers


@each(
    [
        ("roundrobin", "round-robin"), ("fifo", "fifo"), ("RoundRobin", "round-robin"), ("FIFO", "fifo"),
        ("ElasticFIFO", "elastic-fifo"), ("SRJF", "srtf"), ("ElasticSRJF", "elastic-srtf"),
        ("ElasticTiresias", "elastic-tiresias"), ("AFS-L", "afs-l"), ("FfDLOptimizer", "ffdl"), ("AFSL", "afs-l"),
    ],
    "name", "stored",
)  # fmt: skip
def test_the_algorithm_is_switched_by_its_old_name(api: Api, name: str, stored: str) -> None:
    assert api.http.put(f"/algorithm/{name}").status_code == 200
    assert api.http.get("/api/v1/policy").json()["algorithm"] == stored


def test_a_wrong_algorithm_is_a_400(api: Api) -> None:
    answer = api.http.put("/algorithm/lottery")
    assert answer.status_code == 400
    assert "fifo, gandiva, goodput, las, priority" in answer.json()["detail"]


def test_logs_come_over_the_socket_until_the_job_ends(api: Api) -> None:
    job = api.submit()
    api.wait(job, "running")
    api.write_log(job, b"epoch 1\n")
    url = str(api.http.base_url).replace("http", "ws")
    with connect(f"{url}/jobs/{job}/logs") as socket:
        assert socket.recv(timeout=5) == "epoch 1\n"
        api.write_log(job, b"epoch 2\n", end=True)
        assert socket.recv(timeout=5) == "epoch 2\n"
        api.runtime.finish(f"schedulearn-{job}-1-0")
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=5)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000


def test_a_reader_that_hangs_up_is_let_go(api: Api) -> None:
    job = api.submit()
    api.wait(job, "running")
    url = str(api.http.base_url).replace("http", "ws")
    with connect(f"{url}/jobs/{job}/logs"):
        pass
    wait_for(lambda: api.http.get("/healthz").status_code == 200)


def test_the_socket_of_an_unknown_job_is_closed(api: Api) -> None:
    url = str(api.http.base_url).replace("http", "ws")
    with pytest.raises(Exception, match=r"403|4404"), connect(f"{url}/jobs/nope/logs") as socket:
        socket.recv(timeout=5)
