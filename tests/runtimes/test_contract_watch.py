"""The contract of `Runtime`, held against every engine: what is seen of changes, and after a restart of the service."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from benches import SLEEPER, Bench, shell, wait_for

from schedulearn.scheduler.core.task import EngineState, ObservedTask


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
        assert bench.see(task_id, second).state is EngineState.EXITED
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
        assert bench.see(task_id).state is EngineState.EXITED
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
        wait_for(lambda: seen and seen[-1].state is EngineState.RUNNING, "its start", 8)
        for _ in range(3):
            bench.runtime.pause(task_id)
            wait_for(lambda: seen[-1].paused, "the pause", 8)
            bench.runtime.resume(task_id)
            wait_for(lambda: not seen[-1].paused, "the end of the pause", 8)
        bench.runtime.stop(task_id, 0)


def test_closing_twice_is_fine_and_tasks_go_on(bench: Bench) -> None:
    task_id = bench.start(SLEEPER)
    bench.runtime.close()
    bench.runtime.close()
    if not bench.is_fake:
        assert bench.see(task_id, bench.another()).state is EngineState.RUNNING
