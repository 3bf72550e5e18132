"""The contract of `Runtime`, held against every engine: how tasks start, stop, pause and go."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from benches import SLEEPER, UNKNOWN, Bench, Program, printer, shell, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.task import EngineState, TaskSpec
from schedulearn.scheduler.errors import ImageUnavailable, RuntimeFault, StartRefused


class TestStart:
    def test_a_command_runs_and_its_exit_code_is_seen(self, bench: Bench) -> None:
        before = time.time()
        task_id = bench.start(printer("hello\n", 3))
        task = bench.wait_for_end(task_id)
        assert (task.state, task.exit_code, task.error) == (EngineState.EXITED, 3, "")
        assert not task.oom_killed
        assert before - 1 <= task.started_at <= task.finished_at <= time.time() + 1
        assert bench.read(task_id) == b"hello\n"

    def test_a_running_task_is_seen_with_its_start(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        task = bench.see(task_id)
        assert (task.state, task.exit_code, task.finished_at) == (EngineState.RUNNING, None, None)
        assert abs(task.started_at - time.time()) < 10

    def test_starting_again_changes_nothing(self, bench: Bench) -> None:
        spec = bench.spec(SLEEPER)
        bench.runtime.start(spec)
        first = bench.see(spec.task_id)
        bench.runtime.start(spec)
        assert bench.see(spec.task_id) == first
        bench.runtime.stop(spec.task_id, 0)
        ended = bench.wait_for_end(spec.task_id)
        bench.runtime.start(spec)
        assert bench.see(spec.task_id) == ended

    def test_many_threads_start_a_short_task_once(self, bench: Bench) -> None:
        spec = bench.spec(shell("echo ran", lambda r, t: (r.write(t, b"ran\n"), r.finish(t))))
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(bench.runtime.start, spec) for _ in range(8)]:
                done.result()
        if bench.is_fake:
            bench.runtime.write(spec.task_id, b"ran\n")
            bench.runtime.finish(spec.task_id)
            bench.runtime.check()
        bench.wait_for_end(spec.task_id)
        assert bench.read(spec.task_id, follow=True) == b"ran\n"
        assert len([t for t in bench.runtime.observe() if t.task_id == spec.task_id]) == 1

    def test_a_task_that_was_only_created_is_started_by_the_next_start(self, bench: Bench) -> None:
        spec = bench.spec(SLEEPER)
        bench.create(bench.runtime, spec)
        assert bench.see(spec.task_id).state is EngineState.CREATED
        bench.runtime.start(spec)
        assert bench.see(spec.task_id).state is EngineState.RUNNING

    def test_a_command_that_does_not_exist_is_a_task_that_ended_with_127(self, bench: Bench) -> None:
        task_id = bench.start(
            Program(("nonesuch", "x"), lambda r, t: r.finish(t, 127, error="nonesuch: command not found"))
        )
        task = bench.wait_for_end(task_id)
        assert (task.state, task.exit_code, task.error) == (EngineState.EXITED, 127, "nonesuch: command not found")

    def test_a_command_that_is_not_executable_is_a_task_that_ended_with_126(self, bench: Bench) -> None:
        task_id = bench.start(Program(("/tmp",), lambda r, t: r.finish(t, 126, error="/tmp: Permission denied")))
        task = bench.wait_for_end(task_id)
        assert (task.exit_code, task.error) == (126, "/tmp: Permission denied")

    def test_a_127_of_the_command_itself_is_no_error_of_ours(self, bench: Bench) -> None:
        assert bench.wait_for_end(bench.start(printer("", 127))).error == ""

    def test_a_killed_command_has_code_137(self, bench: Bench) -> None:
        task_id = bench.start(shell("kill -9 $$", lambda r, t: r.finish(t, 137)))
        assert bench.wait_for_end(task_id).exit_code == 137

    @pytest.mark.parametrize(
        "changes",
        [
            {"argv": ()},
            {"argv": ("",)},
            {"argv": ("echo", "a\0b")},
            {"env": {"A=B": "1"}},
            {"env": {"": "1"}},
            {"env": {"A": "\0"}},
            {"job_id": "../../x"},
        ],
        ids=str,
    )
    def test_what_can_never_run_is_refused_and_leaves_nothing(self, bench: Bench, changes: dict) -> None:
        with pytest.raises(StartRefused):
            bench.runtime.start(bench.spec(SLEEPER, **changes))
        assert bench.runtime.observe() == []

    def test_the_environment_can_not_widen_the_pinning(self, bench: Bench) -> None:
        spec = bench.spec(
            shell("env", lambda r, t: (r.write(t, "\n".join(f"{k}={v}" for k, v in r.env(t).items()).encode()),)),
            env={
                "NVIDIA_VISIBLE_DEVICES": "all",
                "CUDA_VISIBLE_DEVICES": "0,1",
                "SCHEDULEARN_TASK": "x",
                "MINE": "1 é",
            },
            gpu_uuids=("GPU-a", "GPU-b"),
        )
        bench.runtime.start(spec)
        if bench.is_fake:
            env = bench.runtime.env(spec.task_id)
        else:
            lines = bench.read(spec.task_id, follow=True).decode().splitlines()
            env = dict(line.split("=", 1) for line in lines)
            assert len(env) == len(lines)
        assert env["NVIDIA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
        assert env["CUDA_VISIBLE_DEVICES"] == ""
        assert env["SCHEDULEARN_TASK"] == spec.task_id
        assert env["MINE"] == "1 é"

    def test_the_words_of_a_command_reach_it_unchanged(self, bench: Bench) -> None:
        words = ("$HOME", "a b", "'", '"', "*", "", "é\n", ";")
        program = Program(
            ("sh", "-c", 'printf "<%s>" "$@"', "sh", *words),
            lambda r, t: (r.write(t, "".join(f"<{w}>" for w in words).encode()), r.finish(t)),
        )
        assert bench.read(bench.start(program), follow=True) == "".join(f"<{w}>" for w in words).encode()


class TestStop:
    def test_a_command_gets_time_to_end_by_itself(self, bench: Bench) -> None:
        if bench.is_fake:
            bench.runtime.stop_code = 7
        task_id = bench.start(
            shell(
                # The whole group gets the signal: what the shell says of its killed `sleep` is kept out of the log.
                "exec 2>/dev/null; trap 'echo saved; exit 7' TERM; echo ready; while :; do sleep 0.02; done",
                lambda r, t: r.write(t, b"ready\nsaved\n"),
            )
        )
        bench.wait_for_output(task_id, b"ready")
        bench.runtime.stop(task_id, 20)
        task = bench.see(task_id)
        assert (task.state, task.exit_code) == (EngineState.EXITED, 7)
        assert bench.read(task_id).endswith(b"saved\n")

    def test_all_of_its_process_group_get_the_signal(self, bench: Bench) -> None:
        if bench.is_fake:
            bench.runtime.stop_code = 5
        task_id = bench.start(
            shell(
                "trap : TERM; (trap 'echo child saved; exit' TERM; echo ready; while :; do sleep 0.02; done) & "
                "wait; wait; exit 5",
                lambda r, t: r.write(t, b"ready\nchild saved\n"),
            )
        )
        bench.wait_for_output(task_id, b"ready")
        bench.runtime.stop(task_id, 20)
        assert bench.see(task_id).exit_code == 5
        assert b"child saved\n" in bench.read(task_id)

    def test_one_that_ignores_it_is_killed_after_the_grace(self, bench: Bench) -> None:
        if bench.is_fake:
            pytest.skip("a fake has no signals")
        task_id = bench.start(shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"))
        bench.wait_for_output(task_id, b"ready")
        began = time.monotonic()
        bench.runtime.stop(task_id, 1)
        assert 0.9 < time.monotonic() - began < 20
        task = bench.see(task_id)
        assert (task.state, task.exit_code) == (EngineState.EXITED, 137)

    def test_stopping_at_once_does_not_wait(self, bench: Bench) -> None:
        task_id = bench.start(shell("trap '' TERM; while :; do sleep 0.05; done"))
        bench.runtime.stop(task_id, 0)
        assert bench.see(task_id).state is EngineState.EXITED

    def test_stopping_what_has_ended_changes_nothing(self, bench: Bench) -> None:
        task_id = bench.start(printer("x", 3))
        ended = bench.wait_for_end(task_id)
        bench.runtime.stop(task_id, 5)
        assert bench.see(task_id) == ended

    @pytest.mark.parametrize("name", UNKNOWN)
    def test_stopping_and_removing_the_unknown_is_fine(self, bench: Bench, name: str) -> None:
        bench.runtime.stop(name, 1)
        bench.runtime.remove(name)
        assert list(bench.runtime.logs(name, True)) == []
        assert bench.runtime.observe() == []

    def test_stopping_a_task_that_never_ran_leaves_it_so(self, bench: Bench) -> None:
        spec = bench.spec(SLEEPER)
        bench.create(bench.runtime, spec)
        bench.runtime.stop(spec.task_id, 1)
        assert bench.see(spec.task_id).state is EngineState.CREATED
        bench.runtime.remove(spec.task_id)
        assert bench.see(spec.task_id) is None


class TestPause:
    TALKERS = "trap 'echo saved; exit 7' TERM; (while :; do echo child; sleep 0.02; done) & while :; do wait; done"

    def counting(self, bench: Bench) -> str:
        """A task of several processes, which print all the time."""
        task_id = bench.start(shell(f"exec 2>/dev/null; {self.TALKERS}", lambda r, t: r.write(t, b"child\n")))
        bench.wait_for_output(task_id, b"child")
        return task_id

    def test_a_paused_task_stands_still_and_goes_on_when_it_is_resumed(self, bench: Bench) -> None:
        task_id = self.counting(bench)
        before = bench.see(task_id)
        bench.runtime.pause(task_id)
        assert bench.see(task_id) == replace(before, paused=True)
        wait_for(lambda: self.stands_still(bench, task_id), "the end of what it had printed before")
        kept = bench.read(task_id)
        bench.runtime.resume(task_id)
        assert bench.see(task_id) == before
        if not bench.is_fake:
            wait_for(lambda: len(bench.read(task_id)) > len(kept), "more output")

    def stands_still(self, bench: Bench, task_id: str) -> bool:
        before = bench.read(task_id)
        time.sleep(0.4)  # in which it would print 20 lines
        return bench.read(task_id) == before

    def test_pausing_and_resuming_again_change_nothing(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        bench.runtime.resume(task_id)
        assert not bench.see(task_id).paused
        for _ in range(2):
            bench.runtime.pause(task_id)
            assert bench.see(task_id).paused
        for _ in range(2):
            bench.runtime.resume(task_id)
            assert not bench.see(task_id).paused

    def test_a_paused_task_still_gets_its_time_to_end_by_itself(self, bench: Bench) -> None:
        if bench.is_fake:
            bench.runtime.stop_code = 7
        task_id = self.counting(bench)
        bench.runtime.pause(task_id)
        bench.runtime.stop(task_id, 20)
        task = bench.see(task_id)
        assert (task.state, task.exit_code, task.paused) == (EngineState.EXITED, 7, False)
        assert bench.is_fake or b"saved\n" in bench.read(task_id)

    def test_a_paused_task_can_be_removed(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        bench.runtime.pause(task_id)
        bench.runtime.remove(task_id)
        assert bench.see(task_id) is None

    def test_a_pause_outlives_the_service(self, bench: Bench) -> None:
        task_id = bench.start(SLEEPER)
        bench.runtime.pause(task_id)
        if not bench.is_fake:
            bench.runtime.close()
        second = bench.another()
        assert bench.see(task_id, second).paused
        second.resume(task_id)
        assert not bench.see(task_id, second).paused

    def test_what_does_not_run_is_left_as_it_is(self, bench: Bench) -> None:
        for name in UNKNOWN:
            bench.runtime.pause(name)
            bench.runtime.resume(name)
        ended = bench.start(printer("", 0))
        task = bench.wait_for_end(ended)
        bench.runtime.pause(ended)
        bench.runtime.resume(ended)
        assert bench.see(ended) == task
        spec = bench.spec(SLEEPER)
        bench.create(bench.runtime, spec)
        bench.runtime.pause(spec.task_id)
        assert bench.see(spec.task_id).state is EngineState.CREATED


class TestRemove:
    def test_a_removed_task_is_gone_and_its_log_stays(self, bench: Bench) -> None:
        task_id = bench.start(printer("some words", 1))
        bench.wait_for_end(task_id)
        bench.runtime.remove(task_id)
        bench.runtime.remove(task_id)
        assert bench.see(task_id) is None
        assert bench.read(task_id) == bench.read(task_id, follow=True) == b"some words"

    def test_a_running_task_is_killed_first(self, bench: Bench) -> None:
        task_id = bench.start(
            shell("trap '' TERM; echo one; while :; do sleep 0.05; done", lambda r, t: r.write(t, b"one\n"))
        )
        bench.wait_for_output(task_id, b"one")
        bench.runtime.remove(task_id)
        assert bench.see(task_id) is None
        assert bench.read(task_id, follow=True) == b"one\n"


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
    assert "Python SDK for training scripts" in printed


def test_a_spec_names_its_task() -> None:
    assert TaskSpec("j", 2, 3, "i", ("a",), ()).task_id == "schedulearn-j-2-3"
    assert issubclass(ImageUnavailable, StartRefused)
    assert issubclass(StartRefused, RuntimeFault)
