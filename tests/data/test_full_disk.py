"""A disk that is full: what was sent or copied in part is never taken for whole, and the answer says what is wrong.

A limit on the size of files stands for the disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_STORE = """
import hashlib, io, pathlib, sys, tarfile
from schedulearn.scheduler.data.store import DataStore
from schedulearn.scheduler.errors import NoSpaceError

store, content = DataStore(pathlib.Path(sys.argv[1])), bytes(1 << 20)
name = hashlib.sha256(content).hexdigest()

def upload():
    with store.append(name, len(content), 0) as sent:
        for start in range(0, len(content), 1 << 16):
            sent.write(content[start : start + (1 << 16)])
        sent.finish()

def batch():
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    archive.seek(0)
    store.put_many(archive)

def of_a_job():
    store.add(iter([content]))

try:
    {"upload": upload, "batch": batch, "of_a_job": of_a_job}[sys.argv[2]]()
except NoSpaceError as error:
    print(error.http_status, error)
print("blobs:", [path.name for path in store.folder.joinpath("blobs").rglob("*") if path.is_file()])
"""

_COPY = """
import io, pathlib, sys, tarfile
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.process.shared_data import DataOnDisk

def archive(name, size):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        info = tarfile.TarInfo(name)
        info.size = size
        tar.addfile(info, io.BytesIO(bytes(size)))
    return [target.getvalue()]

data, key = DataOnDisk(pathlib.Path(sys.argv[1], "data"), pathlib.Path(sys.argv[1], "outputs")), "sha256:" + "0" * 64
try:
    data.load(key, [archive("small", 10), archive("large", 1 << 20)], ["a", "b"])
except RuntimeFault as fault:
    print(fault)
print("whole:", data.has(key), "begun:", *data.begun(key))
"""


def run_on_a_full_disk(program: str, *words: str) -> str:
    limited = ["sh", "-c", 'ulimit -f 100; exec "$@"', "sh", sys.executable, "-c", program, *words]
    return subprocess.run(limited, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("how", ["upload", "batch", "of_a_job"])
def test_the_store_says_so_and_has_no_content_by_its_name(tmp_path: Path, how: str) -> None:
    told = run_on_a_full_disk(_STORE, str(tmp_path), how)
    assert told.startswith("507 no disk space for")
    assert told.endswith("blobs: []\n")


def test_a_copy_on_a_host_is_not_there_and_keeps_the_parts_that_came_whole(tmp_path: Path) -> None:
    told = run_on_a_full_disk(_COPY, str(tmp_path))
    assert "can't be unpacked" in told
    assert told.endswith("whole: False begun: a\n")
