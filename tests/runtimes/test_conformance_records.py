"""The contract of `Runtime`, second part: what stays of a task (logs, checkpoints) and what is told of it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from benches import LOG_CAP, SLEEPER, Bench, printer, shell, wait_for

from schedulearn.scheduler.core.task import ObservedTask, TaskSpec, TaskState, parse_task_id
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault, StartRefused
from schedulearn.scheduler.runtimes.fake import FakeRuntime


class TestLogs:
    def test_output_can_be_followed_while_it_comes(self, bench: Bench) -> None:
        task_id = bench.start(shell("echo one; sleep 0.5; echo two >&2", lambda r, t: r.write(t, b"one\n")))
        output = bench.runtime.logs(task_id, True)
        assert next(output) == b"one\n"
        assert bench.see(task_id).state is TaskState.RUNNING
        if bench.is_fake:
            bench.runtime.write(task_id, b"two\n")
            bench.runtime.finish(task_id)
        assert b"".join(output) == b"two\n"

    def test_any_bytes_come_through(self, bench: Bench) -> None:
        data = b"\xff\xfe\x00\r\x1b[0m no newline at the end \xe2\x82"
        octal = "".join(f"\\{byte:03o}" for byte in data)
        task_id = bench.start(shell(f"printf '{octal}'", lambda r, t: (r.write(t, data), r.finish(t))))
        assert bench.read(task_id, follow=True) == data

    def test_a_very_long_line_comes_through(self, bench: Bench) -> None:
        line = b"a" * 50_000
        task_id = bench.start(
            shell("head -c 50000 /dev/zero | tr '\\000' a", lambda r, t: (r.write(t, line), r.finish(t)))
        )
        assert bench.read(task_id, follow=True) == line

    def test_of_a_big_log_the_end_is_kept(self, bench: Bench) -> None:
        everything = "".join(f"{n}\n" for n in range(1, 40_001)).encode()
        task_id = bench.start(shell("seq 1 40000", lambda r, t: (r.write(t, everything), r.finish(t))))
        bench.wait_for_end(task_id)
        kept = bench.read(task_id)
        assert everything.endswith(kept)
        assert len(kept) >= LOG_CAP // 2
        assert bench.is_fake or len(kept) <= LOG_CAP

    def test_closing_ends_those_who_follow(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        reader = threading.Thread(target=bench.read, args=(task_id,), kwargs={"follow": True})
        reader.start()
        bench.runtime.close()
        reader.join(10)
        assert not reader.is_alive()


class TestImages:
    def test_an_image_that_is_there_is_known(self, bench: Bench) -> None:
        assert bench.runtime.has_image(bench.image)
        assert not bench.runtime.has_image("schedulearn-test/absent:1") or bench.kind == "process"

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
            list(bench.runtime.fetch_image("localhost:1/absent:1"))
        assert {"fake": "absent", "process": "no space left", "docker": "localhost:1/absent:1"}[bench.kind] in str(
            error.value
        )


class TestRestart:
    def test_tasks_outlive_the_service_and_the_next_one_finds_them(self, bench: Bench) -> None:
        if bench.is_fake:
            pytest.skip("a fake ends with its process")
        task_id = bench.start(shell("echo one; sleep 0.7; echo two; sleep 100"))
        bench.wait_for_output(task_id, b"one")
        first = bench.see(task_id)
        bench.runtime.close()
        second = bench.another()
        assert bench.see(task_id, second) == first
        wait_for(lambda: bench.read(task_id, runtime=second) == b"one\ntwo\n")
        second.stop(task_id, 1)
        assert bench.see(task_id, second).state is TaskState.EXITED
        assert bench.read(task_id, follow=True, runtime=second) == b"one\ntwo\n"

    def test_what_ended_meanwhile_is_found_with_code_and_log(self, bench: Bench) -> None:
        if bench.is_fake:
            pytest.skip("a fake ends with its process")
        task_id = bench.start(shell("sleep 0.3; echo bye; exit 4"))
        bench.runtime.close()
        second = bench.another()
        assert bench.wait_for_end(task_id, second).exit_code == 4
        assert bench.read(task_id, runtime=second) == b"bye\n"


class TestWatch:
    def test_it_wakes_when_a_task_ends_and_ends_with_close(self, bench: Bench) -> None:
        ticks: list[float] = []

        def watch() -> None:
            for _ in bench.runtime.watch():
                ticks.append(time.monotonic())

        watcher = threading.Thread(target=watch)
        runtime = bench.runtime
        watcher.start()
        wait_for(lambda: ticks, "the first tick")
        task_id = bench.start(SLEEPER)
        time.sleep(0.3)
        quiet = len(ticks)
        time.sleep(0.3)
        assert len(ticks) == quiet, "it ticks although nothing happens"
        if bench.is_fake:
            runtime.finish(task_id)
        else:
            runtime.stop(task_id, 0)
        ended = time.monotonic()
        wait_for(lambda: len(ticks) > quiet, "a tick")
        assert ticks[quiet] - ended < 2
        assert bench.see(task_id).state is TaskState.EXITED
        runtime.close()
        watcher.join(10)
        assert not watcher.is_alive()


class TestWhatAChangeAnnounces:
    """Who observes only when `watch` yields misses nothing: no later look is needed to see what has changed."""

    @pytest.fixture
    def seen(self, bench: Bench) -> Iterator[list[ObservedTask]]:
        """Every task of each observation that followed a yield."""
        found: list[ObservedTask] = []
        watching = threading.Event()

        def follow() -> None:
            for _ in runtime.watch():
                found.extend(runtime.observe())
                watching.set()

        runtime = bench.runtime
        watcher = threading.Thread(target=follow)
        watcher.start()
        assert watching.wait(10)
        yield found
        runtime.close()
        watcher.join(10)

    def test_it_shows_the_end_of_a_command(self, bench: Bench, seen: list[ObservedTask]) -> None:
        ends = shell("sleep 0.5; exit 3", lambda runtime, task_id: runtime.finish(task_id, 3))
        tasks = [bench.start(ends) for _ in range(3)]
        wait_for(lambda: {t.task_id for t in seen if t.exit_code == 3} == set(tasks), "the end of all", 8)

    def test_it_shows_a_pause_and_its_end(self, bench: Bench, seen: list[ObservedTask]) -> None:
        task_id = bench.start(SLEEPER)
        wait_for(lambda: seen and seen[-1].state is TaskState.RUNNING, "its start", 8)
        for _ in range(3):
            bench.runtime.pause(task_id)
            wait_for(lambda: seen[-1].paused, "the pause", 8)
            bench.runtime.resume(task_id)
            wait_for(lambda: not seen[-1].paused, "the end of the pause", 8)
        bench.runtime.stop(task_id, 0)


def test_checkpoints_outlive_an_attempt_and_belong_to_one_job(bench: Bench) -> None:
    write = shell('echo step-7 > "$SCHEDULEARN_CHECKPOINT_DIR/saved"', lambda r, t: r.finish(t))
    read = shell('cat "$SCHEDULEARN_CHECKPOINT_DIR/saved"', printer("step-7\n").play)
    other = shell('cat "$SCHEDULEARN_CHECKPOINT_DIR/saved"', lambda r, t: r.finish(t, 1))
    spec = bench.spec(write)
    first = bench.start(write, job_id=spec.job_id)
    bench.wait_for_end(first)
    bench.runtime.drop_checkpoints(spec.job_id)  # refused: a task of the job is still there
    bench.runtime.remove(first)
    second = bench.start(read, job_id=spec.job_id, attempt=2)
    bench.wait_for_end(second)
    assert b"step-7" in bench.read(second, follow=True)
    stranger = bench.start(other)
    assert bench.wait_for_end(stranger).exit_code == 1
    assert spec.job_id in bench.another().checkpoints()
    bench.runtime.remove(second)
    bench.runtime.drop_checkpoints(spec.job_id)
    bench.runtime.drop_checkpoints("nobody")
    assert spec.job_id not in bench.runtime.checkpoints()


def test_checkpoints_go_from_one_folder_to_another_whole_or_not_at_all(bench: Bench) -> None:
    runtime = bench.runtime
    write = 'cd "$SCHEDULEARN_CHECKPOINT_DIR"; printf step-7 > saved'
    source = bench.spec(shell(write))
    target = bench.spec(shell(""), job_id=uuid.uuid4().hex[:10])
    assert runtime.checkpoints_changed_at(source.job_id) is None
    assert list(runtime.save_checkpoints(source.job_id)) == []
    runtime.start(source)
    if isinstance(runtime, FakeRuntime):
        runtime.write_checkpoint(source.job_id, b"step-7")
        runtime.finish(source.task_id)
    bench.wait_for_end(source.task_id)
    changed_at = runtime.checkpoints_changed_at(source.job_id)
    assert changed_at is not None
    assert abs(changed_at - time.time()) < 60
    archive = b"".join(runtime.save_checkpoints(source.job_id))  # while its ended task is there
    with pytest.raises(RuntimeFault, match=source.job_id):
        runtime.load_checkpoints(source.job_id, [archive])
    runtime.remove(source.task_id)
    assert b"".join(runtime.save_checkpoints(source.job_id)), "and when it is not"

    def broken() -> Iterator[bytes]:
        yield archive[: len(archive) // 2]
        raise RuntimeFault("the cable was cut")

    with pytest.raises(RuntimeFault):
        runtime.load_checkpoints(target.job_id, broken())
    assert runtime.checkpoints_changed_at(target.job_id) is None
    assert runtime.checkpoints_changed_at(source.job_id) == changed_at

    runtime.load_checkpoints(target.job_id, iter([archive[:700], archive[700:]]))
    runtime.load_checkpoints(target.job_id, [archive])  # again: the same
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
    archive = list(bench.runtime.save_checkpoints(parse_task_id(other)[0]))
    bench.runtime.load_checkpoints(made.job_id, archive)
    assert bench.see(made.task_id) is None
    bench.runtime.start(made)
    if isinstance(bench.runtime, FakeRuntime):
        bench.runtime.finish(made.task_id)
    assert bench.wait_for_end(made.task_id).exit_code == 0


def test_the_sdk_is_first_on_the_python_path_before_the_users_own(bench: Bench) -> None:
    show = shell('echo "$PYTHONPATH"; cat "${PYTHONPATH%%:*}/schedulearn/worker/__init__.py"')
    if bench.is_fake:
        task = bench.start(show, env={"PYTHONPATH": "/mine"})
        assert isinstance(bench.runtime, FakeRuntime)
        assert bench.runtime.env(task)["PYTHONPATH"].endswith(":/mine")
        return
    task = bench.start(show, env={"PYTHONPATH": "/mine"})
    assert bench.wait_for_end(task).exit_code == 0
    printed = bench.read(task, follow=True).decode()
    assert printed.splitlines()[0].endswith(":/mine")
    assert "What a training script imports" in printed


def test_closing_twice_is_fine_and_tasks_go_on(bench: Bench) -> None:
    task_id = bench.start(SLEEPER)
    bench.runtime.close()
    bench.runtime.close()
    if not bench.is_fake:
        assert bench.see(task_id, bench.another()).state is TaskState.RUNNING


def test_a_spec_names_its_task() -> None:
    assert TaskSpec("j", 2, 3, "i", ("a",), ()).task_id == "schedulearn-j-2-3"
    assert issubclass(ImageUnavailable, StartRefused)
    assert issubclass(StartRefused, RuntimeFault)
