"""The contract of `Resources`, held against every engine: what running tasks take."""

from __future__ import annotations

import os
from typing import Any

import pytest
from benches import SLEEPER, UNKNOWN, Bench, Program, shell, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.resources.contract import TaskCounters
from schedulearn.scheduler.runtimes.resources.docker import read_stats

MIB = 1 << 20


def taking(script: str, **taken: Any) -> Program:
    """A command, and what a fake says that it took."""
    return shell(script, lambda runtime, task_id: runtime.resources.take(task_id, **taken))


def counters(bench: Bench, task_id: str) -> TaskCounters:
    [found] = bench.runtime.resources.tasks([task_id])
    return found


def test_a_busy_task_takes_processors(bench: Bench) -> None:
    task_id = bench.start(taking("while true; do true; done", cpu_seconds=1.0))
    first = wait_for(lambda: counters(bench, task_id).cpu_seconds, "the first tick")
    if isinstance(bench.runtime, FakeRuntime):
        bench.runtime.resources.take(task_id, cpu_seconds=1.0)
    wait_for(lambda: counters(bench, task_id).cpu_seconds > first + 0.2, "more of them")


def test_what_ended_children_took_still_counts(bench: Bench) -> None:
    busy = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    task_id = bench.start(taking(f"(({busy}) & wait); ({busy}); echo done; sleep 100", cpu_seconds=0.5))
    if not bench.is_fake:
        bench.wait_for_output(task_id, b"done")
    before = counters(bench, task_id).cpu_seconds
    assert before > 0.02
    assert counters(bench, task_id).cpu_seconds >= before


def test_memory_is_what_its_processes_hold(bench: Bench) -> None:
    hold = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); echo held; sleep 100"
    task_id = bench.start(taking(hold, memory_bytes=40 * MIB), memory_bytes=512 * MIB)
    if not bench.is_fake:
        bench.wait_for_output(task_id, b"held")
    found = counters(bench, task_id)
    assert 28 * MIB < found.memory_bytes < 300 * MIB
    assert found.memory_limit == (None if bench.kind == "process" else 512 * MIB)


def test_disk_and_network_are_counted_where_the_engine_tells(bench: Bench) -> None:
    task_id = bench.start(SLEEPER)
    found = wait_for(lambda: counters(bench, task_id))
    assert None not in (found.disk_read, found.disk_written)
    assert (found.network_in is None) == (bench.kind == "process")
    assert (found.network_out is None) == (bench.kind == "process")


def test_only_running_tasks_are_told(bench: Bench) -> None:
    ended = bench.start(shell("exit 0", lambda runtime, task_id: runtime.finish(task_id)))
    bench.wait_for_end(ended)
    running = bench.start(SLEEPER)
    told = list(bench.runtime.resources.tasks([ended, *(name for name in UNKNOWN if name.startswith("s")), running]))
    assert [each.task_id for each in told] == [running]
    assert list(bench.runtime.resources.tasks([])) == []


def test_a_paused_task_is_told_too_and_takes_no_processor(bench: Bench) -> None:
    task_id = bench.start(taking("while true; do true; done", cpu_seconds=1.0))
    bench.runtime.pause(task_id)
    assert counters(bench, task_id).cpu_seconds == counters(bench, task_id).cpu_seconds
    bench.runtime.resume(task_id)


def test_the_machine_is_told_where_it_can_be(bench: Bench) -> None:
    found = bench.runtime.resources.machine()
    assert found is not None
    assert found.cpus == (8 if bench.is_fake else os.cpu_count())
    assert found.cpu_seconds > 0
    assert 0 < found.memory_bytes < found.memory_total
    assert 0 < found.disk_bytes <= found.disk_total


@pytest.mark.docker
def test_an_engine_that_does_not_answer_is_a_fault(containers: Bench) -> None:
    runtime = containers.runtime
    task_id = containers.start(SLEEPER)
    runtime.close()
    with pytest.raises(RuntimeFault):
        list(runtime.resources.tasks([task_id]))
    containers.another()


def test_a_silent_fake_is_a_fault() -> None:
    runtime = FakeRuntime()
    runtime.silent = True
    with pytest.raises(RuntimeFault):
        list(runtime.resources.tasks(["schedulearn-x-1-0"]))


def test_what_engines_of_other_kinds_answer_is_read() -> None:
    old = {
        "cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}},
        "memory_stats": {"usage": 300, "limit": 1000, "stats": {"total_inactive_file": 100}},
        "blkio_stats": {
            "io_service_bytes_recursive": [
                {"op": "Read", "value": 5}, {"op": "Write", "value": 7}, {"op": "Total", "value": 12},
                {"op": "Read", "value": 1},
            ]
        },
        "networks": {"eth0": {"rx_bytes": 3, "tx_bytes": 4}, "eth1": {"rx_bytes": 10, "tx_bytes": 20}},
    }  # fmt: skip
    assert read_stats("t", old) == TaskCounters("t", 2.5, 200, 1000, 13, 24, 6, 7)
    on_the_hosts_network = {**old, "blkio_stats": {"io_service_bytes_recursive": None}, "networks": None}
    assert read_stats("t", on_the_hosts_network) == TaskCounters("t", 2.5, 200, 1000, None, None, 0, 0)
    assert read_stats("t", {"cpu_stats": {}, "memory_stats": {}}) is None
