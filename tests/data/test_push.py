"""Data sets are pushed by content: only what is new is sent, and nothing half-sent is ever a version."""

from __future__ import annotations

import hashlib
import io
import os
import socket
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from apis import Api, known_by, serve_api, token_for
from clusters import wait_for
from matrices import each

from schedulearn.api.client.client import ApiError, Client, ClientError
from schedulearn.scheduler.data.store import FRESH_S, DataStore

BYTES = {"content-type": "application/octet-stream"}
ADMIN = "admin-of-the-tests-0123456789"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with serve_api(tmp_path / "service", data_limit=20_000_000, data_files=50) as served:
        yield served


@pytest.fixture
def client(api: Api) -> Iterator[Client]:
    with Client(str(api.http.base_url)) as made:
        yield made


def folder(path: Path, **files: bytes) -> Path:
    for name, content in files.items():
        (path / f"{name}.bin").parent.mkdir(parents=True, exist_ok=True)
        (path / f"{name}.bin").write_bytes(content)
    return path


class CutWire:
    """A way to a local port on which each connection is cut after so many bytes."""

    def __init__(self, to: int, bytes_each: int) -> None:
        self._to = to
        self._bytes = bytes_each
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                threading.Thread(target=self._carry, args=(near, far, self._bytes), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, None), daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket, left: int | None) -> None:
        with suppress(OSError):
            while piece := source.recv(65_536 if left is None else min(65_536, left)):
                to.sendall(piece)
                if left is not None and (left := left - len(piece)) == 0:
                    self.cut += 1
                    break
        for end in (source, to):  # one that is only shut down goes on taking bytes, and its sender waits
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def content_files(api: Api) -> list[Path]:
    return sorted(path for path in (api.directory / "data-sets" / "blobs").rglob("*") if path.is_file())


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def offer(api: Api, name: str, **files: bytes) -> Any:
    listed = [{"path": path, "size": len(content), "sha256": sha(content)} for path, content in files.items()]
    return api.http.post(f"/api/v1/data/{name}/versions", json={"files": listed})


def put(api: Api, content: bytes, *, as_name: str = "", offset: int = 0, size: int | None = None) -> Any:
    query = {"size": len(content) if size is None else size, "offset": offset}
    return api.http.put(
        f"/api/v1/content/{as_name or sha(content)}", content=content[offset:], params=query, headers=BYTES
    )


def test_a_folder_becomes_a_version_and_comes_back_bit_for_bit(client: Client, tmp_path: Path) -> None:
    source = folder(tmp_path / "faces", small=b"s", large=os.urandom(3 << 20), none=b"")
    (source / "below").mkdir()
    (source / "empty").mkdir()
    (source / "below" / "run.sh").write_text("echo")
    (source / "below" / "run.sh").chmod(0o755)
    (source / "below" / "same").symlink_to("run.sh")
    (source / "outside").symlink_to("/etc/passwd")
    left: list[str] = []
    told: list[tuple[str, int, int]] = []
    made = client.push_data("faces", source, on_left_out=left.append, on_progress=lambda *step: told.append(step))
    assert (made["reference"], made["files"], made["bytes"]) == ("faces@1", 4, 1 + (3 << 20) + 4)
    assert left == ["outside (a link that leads outside)"]
    assert told[-1] == ("sending", made["bytes"], made["bytes"])
    back = client.get_data("faces", tmp_path / "back")
    for name in ("small.bin", "large.bin", "none.bin", "below/run.sh"):
        assert (back / name).read_bytes() == (source / name).read_bytes()
    assert os.access(back / "below" / "run.sh", os.X_OK)
    assert os.readlink(back / "below" / "same") == "run.sh"
    assert (back / "empty").is_dir()
    assert not (back / "outside").exists()


def test_a_changed_file_is_all_that_is_sent_again(api: Api, client: Client, tmp_path: Path) -> None:
    source = folder(tmp_path / "faces", one=b"1" * 2_000_000, two=b"2" * 2_000_000, twin=b"2" * 2_000_000)
    client.push_data("faces", source)
    assert len(content_files(api)) == 2
    assert client.push_data("faces", source)["version"] == 1
    folder(source, one=b"changed")
    sent: list[int] = []
    made = client.push_data("faces", source, on_progress=lambda what, done, total: sent.append(total - done))
    assert (made["version"], sent[-2]) == (2, len(b"changed"))
    assert len(content_files(api)) == 3
    assert [each["version"] for each in client.data_versions("faces")] == [2, 1]
    folder(source, one=b"1" * 2_000_000)
    assert client.push_data("faces", source)["version"] == 3  # what an older version held is the newest again
    assert [(each["reference"], each["versions"]) for each in client.data()] == [("faces@3", 3)]


def test_one_file_may_be_a_data_set(client: Client, tmp_path: Path) -> None:
    made = client.push_data("model", folder(tmp_path, best=b"weights") / "best.bin")
    assert made["files"] == 1
    assert (client.get_data("model", tmp_path / "back") / "best.bin").read_bytes() == b"weights"


def test_an_upload_that_was_cut_goes_on_where_it_was(api: Api) -> None:
    content = os.urandom(5_000_000)
    port = api.http.base_url.port
    part = api.directory / "data-sets" / "incoming" / sha(content)
    with socket.create_connection(("127.0.0.1", port)) as cut:
        head = f"PUT /api/v1/content/{sha(content)}?size={len(content)} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        head += "Content-Type: application/octet-stream\r\n"
        cut.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content[:3_000_000])
        wait_for(lambda: part.exists() and part.stat().st_size >= 2_000_000, what="the first part")
    [missing] = offer(api, "faces", a=content).json()["missing"]
    assert (missing["sha256"], missing["size"]) == (sha(content), len(content))
    assert missing["received"] >= 2_000_000
    assert not content_files(api)
    assert api.http.get("/api/v1/data/faces").status_code == 404
    assert put(api, content, offset=1_000_000).status_code == 409
    wait_for(lambda: put(api, content, offset=part.stat().st_size).status_code == 200, what="the rest")
    assert offer(api, "faces", a=content).json()["version"]["reference"] == "faces@1"


def test_a_large_file_goes_on_within_itself_however_often_it_is_cut(api: Api, tmp_path: Path) -> None:
    """No connection carries more than 4 MB: a push that began the file anew each time would never end."""
    source = folder(tmp_path / "faces", large=os.urandom(10_000_000))
    with (
        closing(CutWire(api.http.base_url.port or 80, 4_000_000)) as wire,
        Client(f"http://127.0.0.1:{wire.port}") as client,
    ):
        assert client.push_data("faces", source)["reference"] == "faces@1"
    assert wire.cut >= 2
    [stored] = content_files(api)
    assert stored.read_bytes() == (source / "large.bin").read_bytes()


def test_a_connection_that_is_cut_before_its_answer_ends_no_push(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To name the same content twice makes one version, so that it is safe."""
    request, cut = client._http.request, []

    def cutting(method: str, path: str, **options: Any) -> httpx.Response:
        answer = request(method, path, **options)
        if path.endswith("/versions") and len(cut) < 2 and (not cut or answer.json()["version"]):
            cut.append(path)  # the service did it, and nobody heard: at the first request, and at the last
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        return answer

    monkeypatch.setattr(client._http, "request", cutting)
    assert client.push_data("faces", folder(tmp_path / "faces", one=b"1"))["reference"] == "faces@1"
    assert len(cut) == 2


def test_what_was_sent_in_part_survives_the_service(tmp_path: Path) -> None:
    content = os.urandom(100_000)
    first = DataStore(tmp_path)
    with first.append(sha(content), len(content), 0) as upload:
        upload.write(content[:60_000])
    second = DataStore(tmp_path)
    with second.append(sha(content), len(content), 60_000) as upload:
        upload.write(content[60_000:])
        assert upload.finish() == len(content)
    assert (tmp_path / "blobs" / sha(content)[:2] / sha(content)).read_bytes() == content


def test_content_with_another_digest_is_never_stored(api: Api) -> None:
    answer = put(api, b"rubbish", as_name="0" * 64)
    assert (answer.status_code, "a different digest" in answer.json()["detail"]) == (422, True)
    assert put(api, b"too long", size=3).status_code == 422
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as tar:
        info = tarfile.TarInfo("1" * 64)
        info.size = 7
        tar.addfile(info, io.BytesIO(b"rubbish"))
    assert api.http.post("/api/v1/content", content=body.getvalue(), headers=BYTES).status_code == 422
    assert api.http.post("/api/v1/content", content=body.getvalue()[:700], headers=BYTES).status_code == 422
    assert not content_files(api)


@each(
    [
        ({"files": [{"path": "../x", "size": 1, "sha256": "0" * 64}]}, "invalid path"),
        ({"files": [{"path": "/etc/x", "size": 1, "sha256": "0" * 64}]}, "invalid path"),
        ({"links": {"x": "/etc/passwd"}}, "leads out of"),
        ({"files": [{"path": "x", "size": 1, "sha256": "0" * 64}], "links": {"x": "y"}}, "twice"),
        ({"files": [{"path": f"{n}", "size": 0, "sha256": "0" * 64} for n in range(60)]}, "more than 50 files"),
        ({"files": [{"path": "x", "size": 30_000_000, "sha256": "0" * 64}]}, "larger than"),
        (
            {"files": [{"path": p, "size": n, "sha256": "0" * 64} for p, n in (("x", 1), ("y", 2))]},
            "a different size",
        ),
        ({"files": [{"path": "x", "size": 1, "sha256": "no"}]}, ""),
    ],
    "manifest",
    "told",
)
def test_hostile_lists_are_refused_and_store_nothing(api: Api, manifest: dict[str, Any], told: str) -> None:
    answer = api.http.post("/api/v1/data/faces/versions", json=manifest)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
    assert api.http.get("/api/v1/data").json() == {"items": [], "next": None}


@each(
    ["..", ".hidden", "a b", "x" * 101, "a%2Fb"],
    "name",
)
def test_names_that_can_be_none_are_refused(api: Api, name: str) -> None:
    assert offer(api, name, a=b"x").status_code in (404, 405, 422)


def test_a_batch_of_too_many_bytes_is_refused(api: Api) -> None:
    answer = api.http.post("/api/v1/content", content=bytes(80 << 20), headers=BYTES)
    assert answer.status_code == 413
    assert "send larger files one by one" in answer.json()["detail"]


def test_a_full_store_refuses_more_and_says_what_to_do(tmp_path: Path) -> None:
    with serve_api(tmp_path / "service", data_store=1_000_000) as api, Client(str(api.http.base_url)) as client:
        client.push_data("one", folder(tmp_path / "one", a=b"a" * 600_000))
        with pytest.raises(ApiError, match="data rm") as refused:
            client.push_data("two", folder(tmp_path / "two", b=b"b" * 600_000))
        assert refused.value.status == 507
        assert [each["reference"] for each in client.data()] == ["one@1"]


def test_a_user_keeps_no_more_than_their_share(tmp_path: Path) -> None:
    with serve_api(tmp_path / "service", data_per_user=1_000_000, token="of-the-admin") as api:
        ann, bob = (Client(str(api.http.base_url), token_for(api, name, "user")) for name in ("ann", "bob"))
        with ann, bob:
            ann.push_data("one", folder(tmp_path / "one", a=b"a" * 600_000))
            ann.push_data("same", tmp_path / "one")
            with pytest.raises(
                ApiError, match=r"ann may store at most 977 KiB .* and stores 586 KiB; .*data rm"
            ) as refused:
                ann.push_data("two", folder(tmp_path / "two", b=b"b" * 600_000))
            assert (refused.value.status, refused.value.code) == (429, "over_quota")
            bob.push_data("two", tmp_path / "two")
            ann.remove_data("one")
            ann.remove_data("same")
            ann.push_data("three", tmp_path / "two")
            assert sorted(each["reference"] for each in ann.data()) == ["three@1", "two@1"]


def test_two_pushes_at_once_make_one_version(client: Client, tmp_path: Path) -> None:
    source = folder(tmp_path / "faces", one=os.urandom(2_000_000), two=b"2")
    with ThreadPoolExecutor(4) as pool:
        made = [done.result() for done in [pool.submit(client.push_data, "faces", source) for _ in range(4)]]
    assert {each["reference"] for each in made} == {"faces@1"}


def test_content_that_no_version_names_goes_after_a_day(tmp_path: Path) -> None:
    store = DataStore(tmp_path)
    with store.append(sha(b"x"), 1, 0) as upload:
        upload.write(b"x")
        upload.finish()
    with store.append(sha(b"yz"), 2, 0) as upload:
        upload.write(b"y")
    now = (tmp_path / "incoming" / sha(b"yz")).stat().st_mtime
    assert store.collect(set, now) == 0
    assert store.collect(set, now + FRESH_S + 60) == 2
    assert store.used() == 0


def test_removed_versions_are_gone_and_their_numbers_are_not_given_again(client: Client, tmp_path: Path) -> None:
    source = folder(tmp_path / "faces", one=b"1")
    client.push_data("faces", source)
    folder(source, one=b"2")
    client.push_data("faces", source)
    assert [each["reference"] for each in client.remove_data("faces", 2)] == ["faces@2"]
    with pytest.raises(ApiError, match="the newest version is 1"):
        client.remove_data("faces", 2)
    assert client.push_data("faces", source)["reference"] == "faces@3"
    assert len(client.remove_data("faces")) == 2
    assert client.data() == []


def test_only_its_owner_and_admins_change_a_data_set(tmp_path: Path) -> None:
    with serve_api(tmp_path / "service", token=ADMIN) as api:
        tokens = {
            name: token_for(api, name, role) for name, role in (("ann", "user"), ("bob", "user"), ("vic", "viewer"))
        }
        url = str(api.http.base_url)
        source = folder(tmp_path / "faces", one=b"1")
        with Client(url, tokens["ann"]) as ann, Client(url, tokens["bob"]) as bob, Client(url, ADMIN) as admin:
            ann.push_data("faces", source)
            folder(source, one=b"2")
            for change in (lambda: bob.push_data("faces", source), lambda: bob.remove_data("faces")):
                with pytest.raises(ApiError, match="belongs to ann") as refused:
                    change()
                assert refused.value.status == 403
            assert [each["user"] for each in bob.data()] == ["ann"]
            assert admin.push_data("faces", source)["version"] == 2
            assert len(ann.remove_data("faces")) == 2
        with known_by(api, tokens["vic"]) as viewer:
            assert viewer.get("/api/v1/data").status_code == 200
            assert viewer.delete("/api/v1/data/faces").status_code == 403
            assert viewer.put(f"/api/v1/content/{sha(b'x')}?size=1", content=b"x", headers=BYTES).status_code == 403


def test_a_home_folder_is_never_pushed(client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ClientError, match="home folder"):
        client.push_data("mine", tmp_path)


def test_more_than_the_limit_is_not_sent(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ClientError, match="settings data_files"):
        client.push_data("many", folder(tmp_path / "many", **{f"f{n}": b"x" for n in range(60)}))
