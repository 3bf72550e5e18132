"""The contracts of `Images` and `Checkpoints`, held against every engine."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from benches import SLEEPER, Bench, printer, shell
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.task import parse_task_id
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault


class TestImages:
    def test_an_image_that_is_there_is_known(self, bench: Bench) -> None:
        assert bench.runtime.images.has(bench.image)
        assert not bench.runtime.images.has("schedulearn-test/absent:1") or bench.kind == "process"

    def test_starting_without_the_image_is_refused_and_leaves_nothing(self, bench: Bench, monkeypatch) -> None:
        monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_digest", lambda: "another")
        with pytest.raises(ImageUnavailable, match="absent"):
            bench.runtime.start(bench.spec(SLEEPER, image="schedulearn-test/absent:1"))
        assert bench.runtime.observe() == []

    def test_an_image_that_can_not_be_had_says_why(self, bench: Bench, monkeypatch, tmp_path) -> None:
        script = tmp_path / "fails.sh"
        script.write_text("echo 'progress 10 trying'; echo 'no space left' >&2; exit 1")
        monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_path", lambda name: script)
        with pytest.raises(ImageUnavailable) as error:
            list(bench.runtime.images.fetch("localhost:1/absent:1"))
        assert {"fake": "absent", "process": "no space left", "docker": "localhost:1/absent:1"}[bench.kind] in str(
            error.value
        )


def test_checkpoints_outlive_an_attempt_and_belong_to_one_job(bench: Bench) -> None:
    write = shell('echo step-7 > "$SCHEDULEARN_CHECKPOINT_DIR/saved"', lambda r, t: r.finish(t))
    read = shell('cat "$SCHEDULEARN_CHECKPOINT_DIR/saved"', printer("step-7\n").play)
    other = shell('cat "$SCHEDULEARN_CHECKPOINT_DIR/saved"', lambda r, t: r.finish(t, 1))
    spec = bench.spec(write)
    first = bench.start(write, job_id=spec.job_id)
    bench.wait_for_end(first)
    bench.runtime.checkpoints.drop(spec.job_id)  # refused: a task of the job is still there
    bench.runtime.remove(first)
    second = bench.start(read, job_id=spec.job_id, attempt=2)
    bench.wait_for_end(second)
    assert b"step-7" in bench.read(second, follow=True)
    stranger = bench.start(other)
    assert bench.wait_for_end(stranger).exit_code == 1
    assert spec.job_id in bench.another().checkpoints.jobs()
    bench.runtime.remove(second)
    bench.runtime.checkpoints.drop(spec.job_id)
    bench.runtime.checkpoints.drop("nobody")
    assert spec.job_id not in bench.runtime.checkpoints.jobs()


def test_checkpoints_go_from_one_folder_to_another_whole_or_not_at_all(bench: Bench) -> None:
    runtime = bench.runtime
    write = 'cd "$SCHEDULEARN_CHECKPOINT_DIR"; printf step-7 > saved'
    source = bench.spec(shell(write))
    target = bench.spec(shell(""), job_id=uuid.uuid4().hex[:10])
    assert runtime.checkpoints.changed_at(source.job_id) is None
    assert list(runtime.checkpoints.save(source.job_id)) == []
    runtime.start(source)
    if isinstance(runtime, FakeRuntime):
        runtime.write_checkpoint(source.job_id, b"step-7")
        runtime.finish(source.task_id)
    bench.wait_for_end(source.task_id)
    changed_at = runtime.checkpoints.changed_at(source.job_id)
    assert changed_at is not None
    assert abs(changed_at - time.time()) < 60
    archive = b"".join(runtime.checkpoints.save(source.job_id))  # while its ended task is there
    with pytest.raises(RuntimeFault, match=source.job_id):
        runtime.checkpoints.load(source.job_id, [archive])
    runtime.remove(source.task_id)
    assert b"".join(runtime.checkpoints.save(source.job_id)), "and when it is not"

    def broken() -> Iterator[bytes]:
        yield archive[: len(archive) // 2]
        raise RuntimeFault("the cable was cut")

    with pytest.raises(RuntimeFault):
        runtime.checkpoints.load(target.job_id, broken())
    assert runtime.checkpoints.changed_at(target.job_id) is None
    assert runtime.checkpoints.changed_at(source.job_id) == changed_at

    runtime.checkpoints.load(target.job_id, iter([archive[:700], archive[700:]]))
    runtime.checkpoints.load(target.job_id, [archive])  # again: the same
    read = shell('cat "$SCHEDULEARN_CHECKPOINT_DIR/saved"')
    task = bench.start(read, job_id=target.job_id)
    if isinstance(runtime, FakeRuntime):
        assert runtime.read_checkpoint(target.job_id) == b"step-7"
        return
    assert bench.wait_for_end(task).exit_code == 0
    assert bench.read(task, follow=True) == b"step-7"


def test_a_start_that_was_interrupted_does_not_keep_checkpoints_away(bench: Bench) -> None:
    made = bench.spec(shell("true", lambda r, t: r.finish(t)))
    bench.create(bench.runtime, made)
    other = bench.start(shell('echo 1 > "$SCHEDULEARN_CHECKPOINT_DIR/saved"', lambda r, t: r.finish(t)))
    bench.wait_for_end(other)
    archive = list(bench.runtime.checkpoints.save(parse_task_id(other)[0]))
    bench.runtime.checkpoints.load(made.job_id, archive)
    assert bench.see(made.task_id) is None
    bench.runtime.start(made)
    if isinstance(bench.runtime, FakeRuntime):
        bench.runtime.finish(made.task_id)
    assert bench.wait_for_end(made.task_id).exit_code == 0
