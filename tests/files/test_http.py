"""A job's files over HTTP: listed, read in parts, packed, refused."""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from apis import Api, serve_api
from clusters import wait_for
from fakes.stores import FakeView

from schedulearn.api.files.ranges import NoSuchPart, RangePart, asked_part
from schedulearn.scheduler.errors import RuntimeFault

MODEL = bytes(range(256)) * 20_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serve_api(tmp_path_factory.mktemp("files")) as api:
        yield api


@pytest.fixture(scope="module")
def job(served: Api) -> str:
    job_id = served.submit(required_gpus=1)
    served.wait(job_id, "running")
    for name, content in (("model.pt", MODEL), ("empty", b""), ("plots/loss.png", b"png"), ("plots/a/b ü.txt", b"b")):
        served.runtime.write_output(job_id, name, content)
    served.runtime.write_checkpoint(job_id, b"step 7")
    return job_id


def get(served: Api, job: str, path: str, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return served.http.get(f"/api/v1/jobs/{job}/files/{path}", headers=names)


def listed(served: Api, job: str, **query: str | int) -> dict[str, object]:
    answer = served.http.get(f"/api/v1/jobs/{job}/files", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def names(page: dict[str, object]) -> list[str]:
    items = page["items"]
    assert isinstance(items, list)
    return [item["path"] for item in items]


def test_a_job_has_two_folders_and_what_is_in_them(served: Api, job: str) -> None:
    assert names(listed(served, job)) == ["checkpoints", "outputs"]
    page = listed(served, job, path="/outputs/")
    assert names(page) == ["outputs/empty", "outputs/model.pt", "outputs/plots"]
    assert (page["next"], page["hosts"], page["away"]) == (None, ["local"], [])
    items = page["items"]
    assert isinstance(items, list)
    assert [(item["kind"], item["size"], item["host"]) for item in items] == [
        ("file", 0, "local"), ("file", len(MODEL), "local"), ("folder", None, "local"),
    ]  # fmt: skip
    assert all(item["modified"].endswith("Z") for item in items)
    assert names(listed(served, job, path="outputs/plots/a")) == ["outputs/plots/a/b ü.txt"]
    assert names(listed(served, job, path="outputs/model.pt")) == ["outputs/model.pt"]
    assert names(listed(served, job, path="checkpoints")) == ["checkpoints/checkpoint"]


def test_a_long_list_comes_in_pages(served: Api, job: str) -> None:
    first = listed(served, job, path="outputs", limit=2)
    assert (names(first), first["next"]) == (["outputs/empty", "outputs/model.pt"], "model.pt")
    rest = listed(served, job, path="outputs", limit=2, after="model.pt")
    assert (names(rest), rest["next"]) == (["outputs/plots"], None)
    where = listed(served, job, path="outputs", limit=0)
    assert (names(where), where["hosts"], where["next"]) == ([], ["local"], None), "nobody reads the folder"


def test_a_file_comes_bit_for_bit_and_is_never_run_by_a_browser(served: Api, job: str) -> None:
    answer = get(served, job, "outputs/model.pt")
    assert (answer.status_code, answer.content) == (200, MODEL)
    assert answer.headers["content-length"] == str(len(MODEL))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''model.pt"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert get(served, job, "outputs/plots/loss.png").headers["content-type"] == "image/png", "as the page shows it"
    assert get(served, job, "outputs/empty").content == b""
    assert get(served, job, "outputs/plots/a/b%20%C3%BC.txt").content == b"b"
    assert get(served, job, "checkpoints/checkpoint").content == b"step 7"


def test_a_part_of_a_file_goes_on_where_it_was_cut(served: Api, job: str) -> None:
    etag = get(served, job, "outputs/model.pt").headers["etag"]
    part = get(served, job, "outputs/model.pt", range="bytes=1000-", if_range=etag)
    assert (part.status_code, part.content) == (206, MODEL[1000:])
    assert part.headers["content-range"] == f"bytes 1000-{len(MODEL) - 1}/{len(MODEL)}"
    assert get(served, job, "outputs/model.pt", range="bytes=5-9").content == MODEL[5:10]
    assert get(served, job, "outputs/model.pt", range="bytes=-4").content == MODEL[-4:]
    whole = get(served, job, "outputs/model.pt", range="bytes=1000-", if_range='"another"')
    assert (whole.status_code, whole.content) == (200, MODEL), "it has changed: all of it comes anew"
    beyond = get(served, job, "outputs/model.pt", range=f"bytes={len(MODEL)}-")
    assert (beyond.status_code, beyond.json()["code"]) == (416, "no_such_range")
    assert beyond.headers["content-range"] == f"bytes */{len(MODEL)}"


def test_a_folder_comes_as_a_tar_archive(served: Api, job: str) -> None:
    answer = get(served, job, "outputs/plots")
    assert answer.headers["content-type"] == "application/x-tar"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''plots.tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        assert sorted(tar.getnames()) == ["./a/b ü.txt", "./loss.png"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("outputs/nothing", 404, "there is no outputs/nothing among the files"),
        ("outputs/model.pt/x", 404, "there is no"),
        ("etc/passwd", 404, "unknown folder 'etc': a job has outputs and checkpoints"),
        ("outputs/%2e%2e/%2e%2e/etc/passwd", 422, "remove '..'"),
        ("outputs/..%2f..%2fetc", 422, "remove '..'"),
        ("outputs/%00", 422, "NUL"),
        ("outputs/" + "x" * 5000, 422, "4096 characters"),
        ("", 422, "must begin with"),
    ],
)
def test_what_is_no_file_of_the_job_is_refused(served: Api, job: str, path: str, status: int, words: str) -> None:
    answer = get(served, job, path)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]
    if path:
        answer = served.http.get(f"/api/v1/jobs/{job}/files?path={path}")
        assert answer.status_code == status


def test_a_job_that_nobody_knows_or_that_never_started_has_no_files(served: Api) -> None:
    assert get(served, "nobody", "outputs").status_code == 404
    waiting = served.submit(required_gpus=99)
    answer = get(served, waiting, "outputs")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "has not started" in answer.json()["detail"]
    assert "on no host" not in answer.json()["detail"]
    assert (
        "hosts that have them: none" in served.http.get(f"/api/v1/jobs/{waiting}/files/outputs?host=x").json()["detail"]
    )


def test_files_are_there_after_the_job_and_gone_is_told_as_gone(tmp_path: Path) -> None:
    with serve_api(tmp_path) as api:
        job = api.submit(required_gpus=1)
        api.wait(job, "running")
        api.runtime.write_output(job, "model.pt", MODEL)
        api.runtime.finish(f"schedulearn-{job}-1-0")
        api.wait(job, "succeeded")
        wait_for(lambda: not api.runtime.tasks(), what="the container to be removed")
        assert get(api, job, "outputs/model.pt").content == MODEL
        api.runtime.silent = True
        wait_for(lambda: get(api, job, "outputs").status_code == 502, what="the host to be missed")
        answer = get(api, job, "outputs/model.pt")
        assert answer.json()["code"] == "runtime"
        assert "local" in answer.json()["detail"]
        api.runtime.silent = False
        wait_for(lambda: get(api, job, "outputs").status_code == 200, what="the host to be back")
        api.runtime.outputs.drop(job)
        gone = get(api, job, "outputs/model.pt")
        assert (gone.status_code, gone.json()["code"]) == (410, "files_gone")
        assert "keep_outputs" in gone.json()["detail"]


def test_a_download_that_breaks_does_not_look_complete(served: Api, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(self: FakeView, path: str, size: int, offset: int, length: int) -> Iterator[bytes]:
        yield b"the first"
        yield b"half"
        raise RuntimeFault("the cable was cut")

    monkeypatch.setattr(FakeView, "read", torn)
    with pytest.raises(httpx.RemoteProtocolError):
        get(served, job, "outputs/model.pt")


def test_who_stops_listening_leaves_nothing_open(served: Api, job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()

    def endless(self: FakeView, path: str) -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 100_000
        finally:
            closed.set()

    monkeypatch.setattr(FakeView, "pack", endless)
    with served.http.stream("GET", f"/api/v1/jobs/{job}/files/outputs") as response:
        next(response.iter_raw())
    assert closed.wait(10)


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (None, None), ("", None), ("bytes=0-", RangePart(0, 10)), ("bytes=3-5", RangePart(3, 3)),
        ("bytes=3-99", RangePart(3, 7)),
        ("bytes=-3", RangePart(7, 3)), ("bytes=-99", RangePart(0, 10)), ("bytes=5-3", None), ("bytes=0-1,3-4", None),
        ("bytes=-", None), ("lines=1-2", None), ("bytes=a-b", None), ("bytes=\u0661-", None),
        ("bytes=" + "9" * 99, None),
    ],
)  # fmt: skip
def test_ranges(header: str | None, part: RangePart | None) -> None:
    assert asked_part(header, 10) == part


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_ranges_beyond_the_end(header: str) -> None:
    with pytest.raises(NoSuchPart):
        asked_part(header, 10)
