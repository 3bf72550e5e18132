"""The contract of `Runtime`, held against every engine: a job's code is the directory of its command, whole."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from benches import Bench, shell

from schedulearn.scheduler.code.archive import Entry, Kind, write_archive
from schedulearn.scheduler.errors import StartRefused


@pytest.fixture
def code(tmp_path: Path) -> str:
    """An archive with a script, data below a folder, and more than a stream holds at once."""
    contents = {"run.sh": b"cat deep/data; head -c 5 big | tr x y", "deep/data": b"from afar ", "big": b"x" * 3_000_000}
    entries = [
        Entry(path, Kind.FILE, len(content), path == "run.sh", open=lambda content=content: io.BytesIO(content))
        for path, content in contents.items()
    ]
    entries += [Entry("latest", Kind.LINK, target="deep"), Entry("empty", Kind.FOLDER)]
    path = tmp_path / "code.tar"
    with path.open("wb") as target:
        write_archive(entries, target)
    return str(path)


READS = shell("sh run.sh", lambda r, t: (r.write(t, b"from afar yyyyy"), r.finish(t)))


def test_the_code_is_the_directory_of_the_command(bench: Bench, code: str) -> None:
    task = bench.start(READS, code=code)
    assert bench.wait_for_end(task).exit_code == 0
    assert bench.read(task, follow=True) == b"from afar yyyyy"


def test_the_command_may_write_beside_its_code(bench: Bench, code: str) -> None:
    play = shell("echo more > deep/own && cat latest/own", lambda r, t: (r.write(t, b"more\n"), r.finish(t)))
    task = bench.start(play, code=code)
    assert bench.wait_for_end(task).exit_code == 0
    assert bench.read(task, follow=True) == b"more\n"


def test_a_task_that_was_only_created_gets_all_of_its_code(bench: Bench, code: str) -> None:
    """A service that died before, or while it sent the code."""
    spec = bench.spec(READS, code=code)
    bench.create(bench.runtime, spec)
    bench.runtime.start(spec)
    if bench.is_fake:
        READS.play(bench.runtime, spec.task_id)  # type: ignore[arg-type]
    assert bench.wait_for_end(spec.task_id).exit_code == 0
    assert bench.read(spec.task_id, follow=True) == b"from afar yyyyy"


def test_code_that_is_gone_refuses_the_start_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec(READS, code=str(tmp_path / "gone.tar"))
    with pytest.raises(StartRefused, match="is no longer in the data folder"):
        bench.runtime.start(spec)
    assert bench.see(spec.task_id) is None
