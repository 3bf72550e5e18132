"""Files of real jobs come to the user's machine: whole or not at all, whatever is cut on the way."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from clusters import wait_for
from services import Service

import schedulearn
from schedulearn.api.client.client import ApiError, ClientError, UnreachableError

pytestmark = pytest.mark.process

WRITE = """set -e
cd "$SCHEDULEARN_OUTPUT_DIR"; mkdir -p plots/deep
head -c 5000000 /dev/urandom > model.pt; ln -s model.pt latest; ln -s /etc/passwd plots/out
printf png > plots/loss.png; printf deep > plots/deep/a.txt; printf ckpt > "$SCHEDULEARN_CHECKPOINT_DIR/step-7"
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("files") / "data")
    running.start()
    yield running
    running.close()


@pytest.fixture(scope="module")
def job(service: Service) -> str:
    job_id = service.submit_shell(WRITE)
    service.wait(job_id, "succeeded")
    return job_id


@pytest.fixture(scope="module")
def model(service: Service, job: str) -> bytes:
    return (service.data / "outputs" / job / "model.pt").read_bytes()


class CuttingProxy:
    """Stands before a service, and cuts each of the first `cuts` answers that are longer than `after` bytes."""

    def __init__(self, port: int, after: int, cuts: int) -> None:
        self._port, self._after, self._cuts = port, after, cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._begin(self._serve)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _begin(self, work: Callable[..., None], *given: object) -> None:
        self._threads.append(threading.Thread(target=work, args=given, daemon=True))
        self._threads[-1].start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                upstream = socket.create_connection(("127.0.0.1", self._port))
                self._sockets += [client, upstream]
                self._begin(self._pass_on, client, upstream, False)
                self._begin(self._pass_on, upstream, client, True)

    def _pass_on(self, source: socket.socket, target: socket.socket, may_cut: bool) -> None:
        sent = 0
        with suppress(OSError):
            while data := source.recv(65536):
                sent += len(data)
                if may_cut and self._cuts and sent > self._after:
                    self._cuts -= 1
                    break
                target.sendall(data)
        _end(source, target)

    def close(self) -> None:
        _end(*self._sockets)
        for thread in self._threads:
            thread.join(10)
        for each in self._sockets:
            each.close()


def _end(*sockets: socket.socket) -> None:
    for each in sockets:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)  # closing alone would not reach another thread's recv


@contextmanager
def cutting(service: Service, after: int, cuts: int) -> Iterator[str]:
    """The address of a `CuttingProxy`."""
    proxy = CuttingProxy(int(service.url.rpartition(":")[2]), after, cuts)
    try:
        yield proxy.url
    finally:
        proxy.close()


def left_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_ls_shows_what_a_job_wrote(service: Service, job: str) -> None:
    lines = service.invoke("files", "ls", job).out.splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "MODIFIED"]
    assert [line.split()[0] for line in lines[1:]] == ["latest", "model.pt", "plots/"]
    assert "5.0 MB" in lines[2]
    assert "step-7" in service.invoke("files", "ls", job, "checkpoints").out
    found = service.invoke("files", "ls", job, "outputs/plots", "--json").json
    assert [item["path"] for item in found["items"]] == [
        "outputs/plots/deep", "outputs/plots/loss.png", "outputs/plots/out",
    ]  # fmt: skip


def test_cp_and_get_bring_a_file_bit_for_bit(service: Service, job: str, model: bytes, tmp_path: Path) -> None:
    assert service.invoke("cp", f"{job}:/outputs/model.pt", str(tmp_path)).out.strip() == str(tmp_path / "model.pt")
    assert (tmp_path / "model.pt").read_bytes() == model
    service.invoke("files", "get", job, "outputs/latest", str(tmp_path / "mine.pt"))
    assert (tmp_path / "mine.pt").read_bytes() == model, "a link gives what it leads to"
    service.invoke("cp", f"{job}:checkpoints/step-7", f"{tmp_path}/new/folder/")
    assert (tmp_path / "new/folder/step-7").read_bytes() == b"ckpt"
    (tmp_path / "mine.pt").write_bytes(b"old")
    service.invoke("cp", f"{job}:/outputs/model.pt", str(tmp_path / "mine.pt"))
    assert (tmp_path / "mine.pt").read_bytes() == model
    assert left_in(tmp_path) == ["mine.pt", "model.pt", "new"]


def test_cp_brings_a_folder_and_replaces_none(service: Service, job: str, model: bytes, tmp_path: Path) -> None:
    service.invoke("cp", f"{job}:/outputs", f"{tmp_path}/results")
    assert (tmp_path / "results/model.pt").read_bytes() == (tmp_path / "results/latest").read_bytes() == model
    assert (tmp_path / "results/plots/deep/a.txt").read_bytes() == b"deep"
    assert not os.path.lexists(tmp_path / "results/plots/out")
    again = service.invoke("cp", f"{job}:/outputs/plots", f"{tmp_path}/results", code=1)
    assert "exists already: remove it" in again.err
    assert left_in(tmp_path) == ["results"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("outputs/model.pt", "is not JOB:PATH"),
        ("last:", "is not JOB:PATH"),
        ("last:/outputs/nothing", "there is no outputs/nothing"),
        ("last:/etc/passwd", "a job has outputs and checkpoints"),
        ("last:/outputs/../../x", "remove '..'"),
        ("last:/outputs/plots/out", "outside of the job's folders"),
    ],
)
def test_what_can_not_be_brought_is_refused_and_leaves_nothing(
    service: Service, job: str, tmp_path: Path, source: str, words: str
) -> None:
    code = 2 if "JOB:PATH" in words else 1
    assert words in service.invoke("cp", source.replace("last:", f"{job}:"), str(tmp_path), code=code).err
    assert left_in(tmp_path) == []


def test_a_file_that_is_cut_goes_on_where_it_was(service: Service, job: str, model: bytes, tmp_path: Path) -> None:
    told: list[int] = []
    with cutting(service, 1_500_000, 3) as url, schedulearn.Client(url) as client:
        client.download(job, "outputs/model.pt", tmp_path, on_progress=lambda done, total: told.append(done))
    assert (tmp_path / "model.pt").read_bytes() == model
    assert told == sorted(told), "no byte came twice"
    assert told[-1] == len(model)
    assert left_in(tmp_path) == ["model.pt"]


def test_a_file_that_never_comes_whole_never_has_its_name_and_the_next_call_goes_on(
    service: Service, job: str, model: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedulearn.api.client.files._REST_S", 0.0)
    (tmp_path / "model.pt").write_bytes(b"of an earlier job")
    with schedulearn.Client(service.url) as direct, cutting(service, 700, 99) as url, schedulearn.Client(url) as client:
        listed = direct.files(job, "outputs")
        monkeypatch.setattr(client, "_object", lambda *_, **__: {**listed, "items": [
            item for item in listed["items"] if item["name"] == "model.pt"
        ]})  # fmt: skip
        with pytest.raises(UnreachableError, match="run the same command again"):
            client.download(job, "outputs/model.pt", tmp_path)
    assert (tmp_path / "model.pt").read_bytes() == b"of an earlier job"
    with cutting(service, 2_000_000, 1) as url, schedulearn.Client(url) as client:
        client.download(job, "outputs/model.pt", tmp_path)
    assert hashlib.sha256((tmp_path / "model.pt").read_bytes()).digest() == hashlib.sha256(model).digest()


def test_a_folder_that_is_cut_is_refused_whole(service: Service, job: str, tmp_path: Path) -> None:
    with (
        cutting(service, 2_000_000, 9) as url,
        schedulearn.Client(url) as client,
        pytest.raises(UnreachableError, match="nothing was stored"),
    ):
        client.download(job, "outputs", tmp_path)
    assert left_in(tmp_path) == []


def test_a_file_that_changes_under_way_is_never_of_two_versions(tmp_path: Path) -> None:
    """The job writes it anew, with another content of the same size, while it is sent."""
    service = Service(tmp_path / "data")
    service.start()
    job = service.submit_shell('cd "$SCHEDULEARN_OUTPUT_DIR"; head -c 8000000 /dev/zero > model.pt; sleep 1000')
    file = service.data / "outputs" / job / "model.pt"
    wait_for(lambda: file.is_file() and file.stat().st_size == 8_000_000, what="the file")
    changed: list[int] = []

    def overwrite(done: int, total: int | None) -> None:
        if not changed:
            changed.append(done)
            with file.open("r+b") as handle:
                handle.write(b"1" * 8_000_000)

    with schedulearn.Client(service.url) as client:
        client.download(job, "outputs/model.pt", f"{tmp_path}/here/", on_progress=overwrite)
    assert set((tmp_path / "here/model.pt").read_bytes()) in ({0}, {ord("1")})
    assert left_in(tmp_path / "here") == ["model.pt"]
    service.cancel_all()
    ended = service.stop()
    assert (ended.code, service.leaked()) == (0, [])
    assert "outputs/model.pt' was interrupted: model.pt changed while it was read" in ended.errors
    assert "Traceback" not in ended.errors
    service.http.close()


def test_errors_of_the_client_say_what_to_do(service: Service, job: str, tmp_path: Path) -> None:
    with schedulearn.Client(service.url) as client:
        assert [item["name"] for item in client.files(job)["items"]] == ["checkpoints", "outputs"]
        with pytest.raises(ApiError) as refused:
            client.files("nobody", "outputs")
        assert refused.value.status == 404
        with pytest.raises(ClientError, match="name a file or a folder"):
            client.download(job, "/", tmp_path)
        (tmp_path / "file").write_text("x")
        with pytest.raises(ClientError, match="can't be written"):
            client.download(job, "outputs/model.pt", tmp_path / "file" / "below")
