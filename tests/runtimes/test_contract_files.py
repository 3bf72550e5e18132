"""The contract of `JobFolders` and `FolderView`: what a job writes is seen, read and packed, on every engine."""

from __future__ import annotations

import io
import tarfile
import time
import uuid
from collections.abc import Iterator

import pytest
from benches import Bench, shell
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.task import TaskSpec
from schedulearn.scheduler.errors import InvalidError, NotFoundError, RuntimeFault
from schedulearn.scheduler.runtimes.contract import FileKind, FolderView
from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.paths import parts_of, resolve

MODEL = b"\0\xff0123456789" * 1000
WRITE = """
cd "$SCHEDULEARN_OUTPUT_DIR"
i=0; while [ $i -lt 1000 ]; do printf '\\000\\3770123456789'; i=$((i+1)); done > model.pt
mkdir -p plots/deep empty; printf png > plots/loss.png; printf x > plots/deep/a; printf log > 'a b ü.txt'
"""


def write(bench: Bench, script: str = WRITE, *, end: bool = True, **changes: object) -> TaskSpec:
    """A job that has written into its outputs, and runs or has ended."""
    spec = bench.spec(shell(f"set -e; {script}\necho written{'' if end else '; sleep 100'}"), **changes)
    bench.runtime.start(spec)
    if isinstance(bench.runtime, FakeRuntime):
        for name, content in (
            ("model.pt", MODEL), ("plots/loss.png", b"png"), ("plots/deep/a", b"x"), ("a b ü.txt", b"log")
        ):  # fmt: skip
            bench.runtime.write_output(spec.job_id, name, content)
        bench.runtime.write(spec.task_id, b"written\n")
        if end:
            bench.runtime.finish(spec.task_id)
    bench.wait_for_output(spec.task_id, b"written")
    if end:
        assert bench.wait_for_end(spec.task_id).exit_code == 0
    return spec


def unpacked(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            member.name.removeprefix("./"): file.read()
            for member in tar
            if member.isreg() and (file := tar.extractfile(member)) is not None
        }


def check_files(view: FolderView | None) -> None:
    assert view is not None
    names = {entry.name: entry for entry in view.entries("", "", 100)}
    assert names.keys() - {"empty"} == {"a b ü.txt", "model.pt", "plots"}
    model = names["model.pt"]
    assert (model.kind, model.bytes) == (FileKind.FILE, len(MODEL))
    assert abs(model.modified_at - time.time()) < 60
    assert (names["plots"].kind, names["plots"].bytes) == (FileKind.FOLDER, 0)
    assert [entry.name for entry in view.entries("", "a b ü.txt", 1)] == [sorted(names)[1]]
    assert [entry.name for entry in view.entries("plots", "", 100)] == ["deep", "loss.png"]
    same = view.stat("model.pt")
    assert same is not None
    assert (same.kind, same.bytes, int(same.modified_at)) == (model.kind, model.bytes, int(model.modified_at))
    assert view.stat("plots/loss.png") is not None
    assert view.stat("nothing") is view.stat("plots/nothing") is None
    for nothing in (("nothing", "x"), ("model.pt", "x")):
        with pytest.raises(NotFoundError):
            resolve(nothing, view.stat, view.seen_at)
    assert b"".join(view.read("model.pt", len(MODEL), 0, len(MODEL))) == MODEL
    assert b"".join(view.read("model.pt", len(MODEL), 5000, 77)) == MODEL[5000:5077]
    assert unpacked(b"".join(view.pack("plots"))) == {"loss.png": b"png", "deep/a": b"x"}
    with pytest.raises(RuntimeFault, match="changed while it was read"):
        list(view.read("model.pt", 5, 0, 5))


def test_outputs_are_seen_while_the_job_runs_when_it_has_ended_and_when_it_is_gone(bench: Bench) -> None:
    runtime, spec = bench.runtime, write(bench, end=False)
    for end in (lambda: None, lambda: runtime.stop(spec.task_id, 0), lambda: runtime.remove(spec.task_id)):
        end()
        with runtime.outputs.view(spec.job_id) as view:
            check_files(view)
    with bench.another().outputs.view(spec.job_id) as view:
        check_files(view)
    [mine] = [each for each in runtime.disk().outputs if each.name == spec.job_id]
    assert mine.bytes >= len(MODEL)
    with runtime.checkpoints.view(spec.job_id) as view:
        assert view is not None
        assert list(view.entries("", "", 10)) == []
    assert runtime.outputs.jobs() == [spec.job_id]
    runtime.outputs.drop(spec.job_id)
    with runtime.outputs.view(spec.job_id) as view:
        assert view is None


def test_a_job_that_never_was_has_no_folder(bench: Bench) -> None:
    with bench.runtime.outputs.view("nobody") as view:
        assert view is None
    assert list(bench.runtime.outputs.save("nobody")) == []


def test_two_look_at_the_same_time_and_neither_ends_the_other(bench: Bench) -> None:
    spec = write(bench)
    with bench.runtime.outputs.view(spec.job_id) as first, bench.runtime.outputs.view(spec.job_id) as second:
        check_files(second)
        check_files(first)


def test_outputs_that_are_brought_join_those_that_are_there(bench: Bench) -> None:
    """A host may have what another rank of the job wrote there before the job went on there."""
    runtime, source = bench.runtime, write(bench)
    archive = b"".join(runtime.outputs.save(source.job_id))
    target = write(bench, 'cd "$SCHEDULEARN_OUTPUT_DIR"; printf mine > rank-1.txt; printf old > model.pt')
    if isinstance(runtime, FakeRuntime):
        runtime.write_output(target.job_id, "rank-1.txt", b"mine")
    with pytest.raises(RuntimeFault, match="still uses"):
        runtime.outputs.load(target.job_id, [archive], keep=True)
    runtime.remove(target.task_id)

    def broken() -> Iterator[bytes]:
        yield archive[: len(archive) // 2]
        raise RuntimeFault("the cable was cut")

    with pytest.raises(RuntimeFault):
        runtime.outputs.load(target.job_id, broken(), keep=True)
    runtime.outputs.load(target.job_id, iter([archive[:700], archive[700:]]), keep=True)
    with runtime.outputs.view(target.job_id) as view:
        assert view is not None
        assert b"".join(view.read("rank-1.txt", 4, 0, 4)) == b"mine"
        assert b"".join(view.read("model.pt", len(MODEL), 0, len(MODEL))) == MODEL
    fresh = uuid.uuid4().hex[:10]
    runtime.outputs.load(fresh, [archive], keep=True)
    with runtime.outputs.view(fresh) as view:
        check_files(view)


LINKS = """
cd "$SCHEDULEARN_OUTPUT_DIR"; mkdir runs; printf 12345 > runs/3.pt
ln -s 3.pt runs/latest; ln -s runs best; ln -s "$PWD/runs/3.pt" absolute
ln -s /etc/passwd out; ln -s ../../x up; ln -s / root; ln -s loop loop; ln -s gone gone2
"""


ENGINES = pytest.mark.parametrize("bench", ["process", pytest.param("docker", marks=pytest.mark.docker)], indirect=True)


@pytest.fixture
def linked(bench: Bench) -> Iterator[FolderView]:
    spec = write(bench, LINKS)
    with bench.runtime.outputs.view(spec.job_id) as view:
        assert view is not None
        yield view


@ENGINES
@pytest.mark.parametrize("path", ["runs/latest", "best/3.pt", "best/latest", "absolute", "best"])
def test_links_inside_are_followed(linked: FolderView, path: str) -> None:
    where, found = resolve(parts_of(path), linked.stat, linked.seen_at)
    assert where == ("runs" if path == "best" else "runs/3.pt")
    assert found.kind is (FileKind.FOLDER if path == "best" else FileKind.FILE)


@ENGINES
@pytest.mark.parametrize("path", ["out", "up", "root", "root/etc/passwd", "loop"])
def test_links_that_lead_out_are_refused(linked: FolderView, path: str) -> None:
    with pytest.raises((InvalidError, RuntimeFault), match=r"outside of the job's folders|too many links"):
        resolve(parts_of(path), linked.stat, linked.seen_at)


@ENGINES
def test_a_link_to_nothing_is_nothing(linked: FolderView) -> None:
    with pytest.raises(NotFoundError):
        resolve(parts_of("gone2"), linked.stat, linked.seen_at)


@pytest.mark.parametrize("path", ["..", "a/../../b", "a\0b", "x" * 5000])
def test_paths_that_lead_up_are_refused(path: str) -> None:
    with pytest.raises(InvalidError):
        parts_of(path)


def test_a_path_is_read_as_people_write_it() -> None:
    assert parts_of("/a//b/./c/") == ("a", "b", "c")
    assert parts_of("/") == parts_of("") == ()


ELSEWHERE = """mkdir -p work/deep work/__pycache__ work/.cache tmp
printf 12345 > work/model.pt; printf 123 > work/deep/log.txt; : > work/empty
printf x > tmp/scratch; printf x > /tmp/$$; printf x > work/__pycache__/a.pyc; printf x > work/.cache/b
printf x > "$SCHEDULEARN_OUTPUT_DIR/kept"; printf x > "$SCHEDULEARN_CHECKPOINT_DIR/kept"
"""


def test_files_that_go_with_a_task_are_told_once_it_has_ended(bench: Bench) -> None:
    spec = bench.spec(shell(f"set -e; {ELSEWHERE} echo written"))
    runtime = bench.runtime
    assert runtime.untracked_files(spec.task_id) in ((), [])
    runtime.start(spec)
    if isinstance(runtime, FakeRuntime):
        for path, size in (("/work/deep/log.txt", 3), ("/work/model.pt", 5), ("/work/__pycache__/a.pyc", 1)):
            runtime.write_elsewhere(spec.task_id, path, size)
        runtime.finish(spec.task_id)
    assert bench.wait_for_end(spec.task_id).exit_code == 0, bench.read(spec.task_id, follow=True)
    found = [(file.path.rpartition("/work/")[2], file.bytes) for file in runtime.untracked_files(spec.task_id)]
    if bench.kind == "process":
        found.remove(("tmp/scratch", 1))  # below its working directory it is a folder like any other
    assert found == [("model.pt", 5), ("deep/log.txt", 3)]
    runtime.remove(spec.task_id)
    assert runtime.untracked_files(spec.task_id) in ((), [])


@pytest.mark.docker
def test_files_are_told_that_a_container_wrote_before_its_engine_noted_the_start(
    containers: Bench, engine_url: str
) -> None:
    spec = containers.spec(shell("true"))
    containers.create(containers.runtime, spec)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, modified_at in (("work/model.pt", time.time()), ("work/train.py", 315_619_200)):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = 1, modified_at
            archive.addfile(member, io.BytesIO(b"x"))
    engine = Engine(engine_url)
    engine.api.put_archive(spec.task_id, "/", packed.getvalue())
    engine.close()
    containers.runtime.start(spec)
    assert containers.wait_for_end(spec.task_id).exit_code == 0
    assert [file.path for file in containers.runtime.untracked_files(spec.task_id)] == ["/work/model.pt"]
