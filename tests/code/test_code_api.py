"""Code is sent once, named by its digest, and what a job runs is told with the job."""

from __future__ import annotations

import gzip
import io
import socket
import tarfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from apis import FIVE_KEYS, Api, serve_api
from clusters import wait_for
from matrices import each
from servers.git_server import git_server

from schedulearn.scheduler.code.archive import read_entries

TAR = {"content-type": "application/x-tar"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path, code_limit=200_000) as served:
        yield served


def tar(**files: str | bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as out:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(f"{name}.py")
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return target.getvalue()


def send(api: Api, body: bytes, **query: str) -> str:
    answer = api.http.post("/api/v1/code", content=body, params=query, headers=TAR)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["digest"])


def stored(api: Api) -> list[str]:
    return sorted(path.name for path in (api.directory / "code").iterdir())


def test_the_same_code_is_stored_once_and_had_back(api: Api) -> None:
    body = tar(train="print(1)")
    digest = send(api, body)
    assert send(api, gzip.compress(body), digest=digest) == digest
    assert stored(api) == [digest.removeprefix("sha256:") + ".tar"]
    shown = api.http.get(f"/api/v1/code/{digest}").json()
    back = api.http.get(f"/api/v1/code/{digest}/archive")
    assert shown == {"digest": digest, "bytes": len(back.content)}
    assert [entry.path for entry in read_entries(io.BytesIO(back.content))] == ["train.py"]
    limits = api.http.get("/api/v1/code").json()
    assert (limits["max_bytes"], limits["stored"], limits["stored_bytes"]) == (200_000, 1, len(back.content))
    assert api.http.get(f"/api/v1/code/sha256:{'0' * 64}").status_code == 404
    assert api.http.get("/api/v1/code/..%2f..%2fschedulearn.db").status_code in (404, 422)


def test_two_at_once_store_one(api: Api) -> None:
    body = tar(train=b"x" * 100_000)
    with ThreadPoolExecutor(6) as pool:
        assert len({done.result() for done in [pool.submit(send, api, body) for _ in range(12)]}) == 1
    assert len(stored(api)) == 1


@pytest.mark.slow
@each(
    [
        (lambda: b"", 422, "no archive in the request"),
        (lambda: b"rubbish", 422, "truncated tar file"),
        (lambda: tar(a=b"x" * 5000)[:3000], 422, "truncated tar file"),
        (lambda: gzip.compress(bytes(100 << 20), 1), 413, "setting code_limit"),
        (lambda: bytes(100 << 20), 413, "setting code_limit"),
        (lambda: tar(a=bytes(300_000)), 422, "larger than 195 KiB"),
    ],
    "make", "status", "told",
)  # fmt: skip
def test_what_is_refused_leaves_nothing(api: Api, make: Callable[[], bytes], status: int, told: str) -> None:
    answer = api.http.post("/api/v1/code", content=make(), headers=TAR)
    assert (answer.status_code, told in answer.json()["detail"]) == (status, True), answer.text
    assert stored(api) == []


def test_another_digest_than_was_said_is_refused(api: Api) -> None:
    answer = api.http.post("/api/v1/code", content=tar(a="x"), params={"digest": f"sha256:{'0' * 64}"}, headers=TAR)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "digest")
    assert stored(api) == []


def test_an_upload_that_is_cut_off_leaves_nothing(api: Api) -> None:
    url = api.http.base_url
    with socket.create_connection((url.host, url.port or 80)) as connection:
        head = f"POST /api/v1/code HTTP/1.1\r\nhost: {url.host}:{url.port}\r\ncontent-length: 9000\r\n"
        head += "content-type: application/x-tar\r\n\r\n"
        connection.sendall(head.encode() + tar(a="x" * 2000)[:1500])
        wait_for(lambda: stored(api), what="the upload to begin")
    wait_for(lambda: not stored(api), what="the end of what was sent")


def test_a_job_tells_what_it_runs_and_can_be_submitted_again(api: Api) -> None:
    digest = send(api, tar(train="print(1)"))
    code: dict[str, Any] = {"digest": digest, "git": None, "ref": None, "commit": "a" * 40, "dirty": True}
    job = api.job(api.submit(code=code, required_gpus=1))
    assert job["code"] == code
    assert api.job(api.submit(code=job["code"], required_gpus=1))["code"] == code
    assert api.job(api.submit(code=digest, required_gpus=1))["code"] == {**code, "commit": None, "dirty": None}
    assert api.job(api.submit(required_gpus=1))["code"] is None


@each(
    [
        (f"sha256:{'0' * 64}", "send it again"), ("train.py", "digest"), ({}, "`digest`"), (5, "code"),
        ({"git": "ssh://github.com/a"}, "https://"), ({"git": "https://ada:pw@github.com/a"}, "password"),
        ({"git": "https://github.com/a", "ref": "--upload-pack=x"}, "ref"),
        ({"git": "https://github.com/a", "commit": "a" * 40}, "with ref"),
        ({"git": "http://127.0.0.1:9/a"}, "setting code_git_hosts"), ({"git": "https://10.0.0.1/a"}, "code_git_hosts"),
    ],
    "code", "told",
)  # fmt: skip
def test_code_that_no_job_can_have_is_refused(api: Api, code: Any, told: str) -> None:
    answer = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, "code": code})
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
    assert api.http.get("/api/v1/jobs").json()["items"] == []


def test_code_of_a_repository_is_that_of_one_commit_for_good(tmp_path: Path) -> None:
    with git_server(tmp_path / "git") as server, serve_api(tmp_path, code_git_hosts=[server.origin]) as api:
        first = server.commit({"train.py": "print(1)"})
        code = {"git": server.url(), "ref": "main"}
        headers = {"idempotency-key": "once"}
        answer = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, "code": code}, headers=headers).json()
        assert answer["code"] == {**code, "digest": answer["code"]["digest"], "commit": first, "dirty": False}
        second = server.commit({"train.py": "print(2)"})
        again = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, "code": code}, headers=headers).json()
        assert (again["id"], again["code"]) == (answer["id"], answer["code"])
        assert api.job(api.submit(code=answer["code"]))["code"]["commit"] == first
        assert api.job(api.submit(code=code))["code"]["commit"] == second
        refused = api.http.post("/api/v1/jobs", json={**FIVE_KEYS, "code": {**code, "ref": "nowhere"}})
        assert (refused.status_code, "nowhere" in refused.json()["detail"]) == (422, True)
        batch = [{**FIVE_KEYS, "code": {**code, "ref": f"b{n}"}} for n in range(17)]
        assert api.http.post("/api/v1/jobs:batch", json=batch).status_code == 422


def test_its_task_gets_the_archive_and_a_job_without_it_fails(api: Api) -> None:
    digest = send(api, tar(train="print(1)"))
    blocker = api.submit(required_gpus=4)
    api.wait(blocker, "running")
    waiting = api.submit(required_gpus=1, code=digest)
    (api.directory / "code" / stored(api)[0]).unlink()
    api.http.post(f"/api/v1/jobs/{blocker}/cancel")
    failed = api.wait(waiting, "failed")
    assert failed["reason"] == "start_refused"
    assert "is no longer in the data folder: submit the job again" in failed["message"]


def test_nobody_without_the_token_sends_code_or_has_it(tmp_path: Path) -> None:
    with serve_api(tmp_path, token="correct-horse") as api:
        digest = send(api, tar(train="print(1)"))
        for method, path in (("POST", ""), ("GET", ""), ("GET", f"/{digest}"), ("GET", f"/{digest}/archive")):
            answer = api.http.request(
                method, f"/api/v1/code{path}", content=b"x", headers={**TAR, "authorization": "Bearer x"}
            )
            assert answer.status_code == 401


@pytest.mark.slow
def test_all_runs_of_a_sweep_have_the_code_of_one_commit_and_its_requirements(tmp_path: Path) -> None:
    with git_server(tmp_path / "git") as server, serve_api(tmp_path, code_git_hosts=[server.origin]) as api:
        first = server.commit({"train.py": "print(1)", "needs.txt": "greeting==1.0  # ours\n"})
        job = {**{key: value for key, value in FIVE_KEYS.items() if key != "name"}, "required_gpus": 1}
        job |= {"command": "train --lr {lr}", "code": {"git": server.url()}, "requirements": "needs.txt"}
        sweep = {"name": "lr", "job": job, "grid": {"lr": [1, 2, 3]}, "max_parallel": 1}
        started = api.http.post("/api/v1/sweeps", json=sweep)
        assert started.status_code == 201, started.text
        server.commit({"train.py": "print(2)", "needs.txt": "other"})
        for number in range(1, 4):
            wait_for(lambda n=number: len(api.http.get("/api/v1/jobs").json()["items"]) == n, what=f"run {number}")
            shown = api.http.get("/api/v1/jobs").json()["items"][0]
            assert (shown["code"]["commit"], shown["requirements"]) == (first, ["greeting==1.0"])
            api.wait(shown["id"], "running")
            api.runtime.finish(f"schedulearn-{shown['id']}-1-0")
