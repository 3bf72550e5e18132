"""backup, restore and uninstall, as an operator runs them."""

from __future__ import annotations

import io
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from clusters import wait_for
from services import IMAGE, Service, invoke, run

pytestmark = pytest.mark.process

Start = Callable[..., Service]


def ids(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as connection:
        return {job_id for (job_id,) in connection.execute("SELECT id FROM job")}


def test_a_backup_made_while_jobs_come_in_brings_all_back_that_was_acknowledged(
    start_service: Start, tmp_path: Path
) -> None:
    service, file, copy = Service(tmp_path / "data"), tmp_path / "backup.tar.gz", tmp_path / "copy"
    service.start()
    (service.data / "token").write_text("for another start")
    (service.data / "secrets.key").write_text("what secrets are encrypted with")
    (service.data / "tls").mkdir()
    for name in ("cert.pem", "key.pem"):
        (service.data / "tls" / name).write_text(name)
    done = service.submit_shell("echo from before")
    service.wait(done, "succeeded")
    batch = [{"name": "j", "type": "x", "container_image": "nope", "command": "true", "required_gpus": 4}] * 10
    acknowledged = {done}
    for _ in range(3):
        answer = service.http.request("POST", "/api/v1/jobs:batch", json=batch)
        acknowledged |= {job["id"] for job in answer.json()["items"]}
        service.invoke("backup", str(file), "--data", str(service.data))
    assert file.stat().st_mode & 0o077 == 0, "it holds the token"

    invoke("restore", str(file), "--data", str(copy))
    assert ids(copy / "schedulearn.db") == acknowledged
    assert (copy / "token").read_text() == (service.data / "token").read_text()
    assert (copy / "secrets.key").read_text() == "what secrets are encrypted with", "without it no secret can be read"
    assert [(copy / "tls" / name).read_text() for name in ("cert.pem", "key.pem")] == ["cert.pem", "key.pem"]
    private = ("token", "secrets.key", "schedulearn.db", "tls", "tls/key.pem")
    assert {(copy / name).stat().st_mode & 0o077 for name in private} == {0}
    service.close()
    restored = start_service(data=copy)
    assert restored.job(done)["state"] == "succeeded"
    assert "from before" in restored.logs(done)


def archive(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a Schedulearn backup"),
        (b"text", "not a Schedulearn backup"),
        (archive(**{"schedulearn.db": b"x" * 100_000})[:-40], "not a Schedulearn backup"),
        (archive(token=b"t"), "contains no database"),
        (archive(**{"schedulearn.db": b"text" * 1000}), "damaged"),
        (archive(**{"etc/passwd": b"x"}), "contains 'etc/passwd'"),
        (archive(**{"logs/../../escaped": b"x"}), "not a Schedulearn backup"),
        (archive(**{"/logs/a": b"x"}), "not a Schedulearn backup"),
    ],
)
def test_what_is_no_backup_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes, words: str) -> None:
    file, data = tmp_path / "file", tmp_path / "data"
    file.write_bytes(content)
    assert words in invoke("restore", str(file), "--data", str(data), code=1).err
    assert [path.name for path in data.iterdir()] == ["schedulearn.lock"]
    assert not (tmp_path / "escaped").exists()


@pytest.mark.long
def test_code_and_secrets_come_back_with_the_jobs_that_need_them(
    start_service: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, file, copy, project = start_service(), tmp_path / "backup.tar.gz", tmp_path / "copy", tmp_path / "nets"
    project.mkdir()
    (project / "train.sh").write_text("echo trained by $WHO")
    monkeypatch.chdir(project)
    service.invoke("secrets", "set", "name", stdin="ada lovelace")
    words = ("--image", IMAGE, "--secret", "WHO=name", "--", "sh", "train.sh")
    job = service.invoke("run", "-d", *words).out.strip()
    service.wait(job, "succeeded")
    service.invoke("backup", str(file), "--data", str(service.data))
    invoke("restore", str(file), "--data", str(copy))
    assert [path.stat().st_mode & 0o077 for path in (copy / "secrets.key", *(copy / "code").iterdir())] == [0, 0]
    restored = start_service(data=copy)
    again = restored.invoke("resubmit", job)
    assert again.out == service.logs(job) != ""


@pytest.mark.long
def test_nothing_is_overwritten_and_no_running_service_is_touched(start_service: Start, tmp_path: Path) -> None:
    service, file = start_service(), tmp_path / "backup.tar.gz"
    data = ("--data", str(service.data))
    service.invoke("backup", str(file), *data)
    assert "another Schedulearn" in service.invoke("restore", str(file), *data, code=1).err
    assert "another Schedulearn" in service.run("uninstall", "--yes", *data, code=1).err
    service.stop()
    assert "has schedulearn.db" in invoke("restore", str(file), *data, code=1).err
    assert "there is no schedulearn.db" in invoke("backup", str(file), "--data", str(tmp_path), code=1).err
    assert "there is no schedulearn.db" in run("uninstall", "--data", str(tmp_path), code=1).err
    service.start()


@pytest.mark.long
def test_uninstall_ends_what_runs_but_only_after_yes(start_service: Start) -> None:
    service = start_service()
    job = service.submit_shell("echo up; sleep 1000")
    service.wait(job, "running")
    service.stop()
    data = ("--data", str(service.data))
    said = run("uninstall", *data, stdin="n\n", code=130)
    assert f"1 container (1 running): schedulearn-{job}-1-0" in said.out
    assert service.leaked()
    run("uninstall", *data, "--yes")
    wait_for(lambda: not service.leaked(), what="the end of the job's processes")
    assert "Nothing of this service was found." in run("uninstall", *data).out
    service.start()
