"""The README snippets of the original Schedulearn, unchanged."""

import pytest
from apis import FIVE_KEYS, Api
from clusters import wait_for
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


@pytest.mark.parametrize(
    ("name", "stored"), [("fifo", "fifo"), ("roundrobin", "round-robin"), ("RoundRobin", "round-robin")]
)
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
