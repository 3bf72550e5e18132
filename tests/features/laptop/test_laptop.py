"""The command line on a laptop: the wheel that a service serves, with the extra `cli` alone."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from laptops import Laptop, make_laptop
from services import Service

from schedulearn.features.laptop import wheel as wheels
from schedulearn.features.laptop.commands import install_lines
from schedulearn.scheduler.errors import NotFoundError

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def wheel(shared_service: Service) -> bytes:
    found = shared_service.call("GET", "/api/v1/client")
    content = shared_service.http.get(found["path"]).content
    assert (len(content), hashlib.sha256(content).hexdigest()) == (found["bytes"], found["sha256"])
    return content


@pytest.fixture(scope="module")
def laptop(wheel: bytes, tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    return make_laptop(tmp_path_factory.mktemp("laptop"), wheel)


def test_the_wheel_is_served_without_a_token_under_its_name_only(service: Service) -> None:
    found = service.call("GET", "/api/v1/client")
    name = found["path"].removeprefix("/client/")
    assert name.endswith("-py3-none-any.whl")
    again = service.http.get(found["path"], headers={"if-none-match": f'"{found["sha256"]}"'})
    assert (again.status_code, again.content) == (304, b"")
    head = service.http.head(found["path"])
    assert (head.status_code, int(head.headers["content-length"]), head.content) == (200, found["bytes"], b"")
    for other in ("schedulearn-9-py3-none-any.whl", "..%2Fsetup.py", name.upper()):
        assert service.http.get(f"/client/{other}").status_code == 404, other
    lines = service.invoke("client", "--json").json["install"]
    assert lines == [
        f'{how} install "schedulearn[cli] @ {service.url}{found["path"]}"' for how in ("uv tool", "pipx", "pip")
    ]
    assert all(line in service.invoke("client").out for line in lines)


def test_the_wheel_is_whole_and_holds_the_program_only(wheel: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        assert archive.testzip() is None
        [record] = [name for name in archive.namelist() if name.endswith(".dist-info/RECORD")]
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        assert sorted(row[0] for row in rows) == sorted(archive.namelist())
        for name, digest, size in rows:
            content = archive.read(name)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            assert name == record or (digest, int(size)) == (f"sha256={hashed}", len(content)), name
        names = archive.namelist()
    folder = record.partition("/")[0]
    assert {name.partition("/")[0] for name in names} == {"schedulearn", folder}
    for needed in ("schedulearn/api/cli/submit.py", "schedulearn/sync_clients.py", "schedulearn/worker/run.py"):
        assert needed in names
    assert not [name for name in names if "static" in name or "worker_images" in name or name.endswith(".pyc")]


def test_it_is_packed_once_and_always_the_same(monkeypatch: pytest.MonkeyPatch, wheel: bytes) -> None:
    assert wheels.pack().content == wheel, "of another process"
    made: list[Any] = []
    monkeypatch.setattr(wheels, "pack", lambda: made.append(None) or object())
    cache = wheels.WheelCache()
    assert cache.wheel() is cache.wheel()
    assert len(made) == 1


def test_an_installed_wheel_without_sources_packs_the_same(laptop: Laptop, wheel: bytes) -> None:
    program = "from schedulearn.features.laptop.wheel import pack; print(pack().sha256)"
    packed = subprocess.run([laptop.python, "-c", program], cwd=laptop.home, capture_output=True, text=True, check=True)
    assert packed.stdout.strip() == hashlib.sha256(wheel).hexdigest()


def test_a_folder_with_more_than_a_package_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = wheels.WheelCache()
    with monkeypatch.context() as patch:
        patch.setattr(wheels, "_MAX_FILES", 10)
        with pytest.raises(NotFoundError, match="holds more than a package does"):
            cache.wheel()
    with pytest.raises(NotFoundError, match="holds more than a package does"):
        cache.wheel()  # nor is it tried for each request


def test_a_laptop_runs_and_follows_a_job(laptop: Laptop, service: Service, tmp_path: Path) -> None:
    (tmp_path / "hello.sh").write_text("echo hello from a laptop\n")
    job = tmp_path / "job.yaml"
    job.write_text(
        "name: a\ntype: Pytorch\ncontainer_image: plain\ncommand: 'true'\nrequired_gpus: 0\nlauncher: none\n"
    )

    def run(*words: str, windows: bool = True) -> str:
        return laptop.run(*words, cwd=tmp_path, windows=windows, SCHEDULEARN_URL=service.url)

    for windows in (False, True):
        followed = run("run", "--image", "plain", "--gpus", "1", "--", "sh", "hello.sh", windows=windows)
        assert "hello from a laptop" in followed
        assert "succeeded" in followed
    assert "succeeded" in run("ls", "--all")
    assert "succeeded" in run("wait", run("submit", "-d", str(job)).split()[0])
    assert "points@1" in run("data", "push", "points", str(tmp_path))
    run("data", "rm", "points", "-y")


def test_where_no_authority_vouches_for_the_service_each_line_checks_the_hash() -> None:
    wheel = {"path": "/client/a.whl", "sha256": "0" * 64, "certificate": "sha256:1"}
    lines = install_lines("https://gpu1:8000", wheel)
    assert all(wheel["sha256"] in line for line in lines)
    assert not any("uv tool" in line and "https" in line.partition("uv tool")[2] for line in lines), "uv ignores it"
    assert "#sha256" not in "".join(install_lines("https://gpu1", {**wheel, "certificate": None}))


def test_every_command_works_or_says_what_it_lacks(laptop: Laptop) -> None:
    assert laptop.run("--import-all", windows=True) == "", "each can be imported, for its help"
    assert "Usage: schedulearn" in laptop.run("--help", windows=True)
    for words in (["simulate", "none.csv"], ["serve"]):
        assert "a laptop's installation leaves out" in laptop.run(*words, code=1), words


def test_a_job_file_has_the_same_keys_as_one_that_the_service_writes(laptop: Laptop, service: Service) -> None:
    written = laptop.run("init", "-", "--gpus", "2", "--", "python", "train.py", SCHEDULEARN_URL=service.url)
    assert written == service.invoke("init", "-", "--gpus", "2", "--", "python", "train.py").out
    assert len(written.splitlines()) > 100


def test_a_command_in_a_job_is_refused_on_windows_before_anything_is_asked(laptop: Laptop) -> None:
    said = laptop.run("exec", "0123456789", "--", "true", code=1, windows=True, SCHEDULEARN_URL="http://127.0.0.1:1")
    assert "on Windows, run this in WSL" in said
