"""Archives are stored whole or not at all, once, and privately; those that are unused make room."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schedulearn.scheduler.code.archive import read_entries
from schedulearn.scheduler.code.store import CodeStore, StoredCode
from schedulearn.scheduler.errors import InvalidError, TooLargeError


def tar(**files: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as out:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{name}.py")
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return target.getvalue()


def send(store: CodeStore, body: bytes, expected: str | None = None, piece: int = 1 << 16) -> StoredCode:
    with store.receive() as upload:
        for at in range(0, len(body), piece):
            upload.write(body[at : at + piece])
        return upload.finish(expected)


def files(store: CodeStore) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir())


@pytest.fixture
def store(tmp_path: Path) -> CodeStore:
    return CodeStore(tmp_path / "code", max_bytes=100_000, max_files=100)


@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 20])
def test_the_same_content_is_stored_once_however_it_is_sent(store: CodeStore, piece: int) -> None:
    body = tar(train=b"print(1)" * 9)
    first = send(store, body)
    assert send(store, gzip.compress(body), first.digest, piece).digest == first.digest
    assert files(store) == [first.digest.removeprefix("sha256:") + ".tar"]
    path = store.path(first.digest)
    assert path.stat().st_mode & 0o077 == 0
    assert [entry.path for entry in read_entries(io.BytesIO(path.read_bytes()))] == ["train.py"]
    assert (store.find(first.digest) or first).bytes == path.stat().st_size == first.bytes


def test_many_at_once_store_one(store: CodeStore) -> None:
    body = tar(train=b"x" * 50_000)
    with ThreadPoolExecutor(8) as pool:
        found = {done.result().digest for done in [pool.submit(send, store, body) for _ in range(16)]}
    assert len(found) == len(files(store)) == 1


@pytest.mark.parametrize(
    "body",
    [tar(a=b"x" * 5000)[:3000], gzip.compress(tar(a=b"x"))[:-5], gzip.compress(tar(a=b"x")) + b"more",
     b"\x1f\x8brubbish", b"rubbish", b"", b"\x1f"],
)  # fmt: skip
def test_what_is_cut_or_damaged_leaves_nothing(store: CodeStore, body: bytes) -> None:
    with pytest.raises(InvalidError):
        send(store, body)
    assert files(store) == []


def test_another_digest_than_was_said_leaves_nothing(store: CodeStore) -> None:
    with pytest.raises(InvalidError, match="it changed on the way"):
        send(store, tar(a=b"x"), f"sha256:{'0' * 64}")
    assert files(store) == []


def test_an_upload_that_is_given_up_leaves_nothing(store: CodeStore) -> None:
    with store.receive() as upload:
        upload.write(tar(a=b"x"))
    assert files(store) == []


def test_a_bomb_is_refused_while_it_grows(store: CodeStore) -> None:
    bomb = gzip.compress(bytes(300 << 20), compresslevel=1)
    with store.receive() as upload:
        with pytest.raises(TooLargeError, match="setting code_limit"):
            upload.write(bomb)
        assert sum(path.stat().st_size for path in store.folder.iterdir()) < 2 << 20
    assert files(store) == []


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    program = """
import sys, pathlib
from schedulearn.scheduler.code.store import CodeStore
from schedulearn.scheduler.errors import NoSpaceError
store = CodeStore(pathlib.Path(sys.argv[1]))
try:
    with store.receive() as upload:
        for _ in range(64):
            upload.write(bytes(1 << 16))
except NoSpaceError as error:
    print(error.http_status, error)
"""
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", sys.executable, "-c", program, str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("507 no disk space for the archive in")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_service_left_is_removed_at_the_next_start(store: CodeStore) -> None:
    kept = send(store, tar(a=b"x"))
    (store.folder / ".partial-old").write_bytes(b"half")
    (store.folder / ".partial-git-old").mkdir()
    (store.folder / ".partial-git-old" / "pack").write_bytes(b"half")
    again = CodeStore(store.folder)
    assert files(again) == [store.path(kept.digest).name]


@pytest.mark.parametrize("digest", ["", "sha256:", "../../etc/passwd", "sha256:" + "g" * 64, "sha256:" + "a" * 65])
def test_what_is_no_digest_is_no_path(store: CodeStore, digest: str) -> None:
    with pytest.raises(InvalidError):
        store.path(digest)


def test_what_was_unused_longest_makes_room_but_nothing_that_is_needed_or_fresh(store: CodeStore) -> None:
    stored = [send(store, tar(a=bytes([n]) * 20_000)) for n in range(5)]
    for age, each in enumerate(stored):
        os.utime(store.path(each.digest), (1000.0 + age, 1000.0 + age))
    assert store.use(stored[1].digest)  # an hour ago at most
    room = 2 * stored[0].bytes
    assert store.prune(lambda: {stored[0].digest}, 0, 1e10) == []
    gone = store.prune(lambda: {stored[0].digest}, room, os.stat(store.path(stored[1].digest)).st_mtime + 60)
    assert [each.digest for each in gone] == [each.digest for each in stored[2:]]
    assert [store.use(each.digest) for each in stored] == [True, True, False, False, False]
    assert [each.digest for each in store.all()] == [stored[0].digest, stored[1].digest]
