"""Errors of an engine about one container, volume or image: the others, and the host, are as before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from benches import Bench, docker_bench, shell
from real_faults.engine_proxy import EngineProxy

from schedulearn.features.admin.doctor import HostToSee, _on_host
from schedulearn.scheduler.core.planning.reconcile import is_fenced
from schedulearn.scheduler.core.task import EngineState, ObservedTask
from schedulearn.scheduler.errors import ObjectFault, RuntimeFault
from schedulearn.scheduler.runtimes.docker import logs, states
from schedulearn.scheduler.runtimes.docker.api import Engine

pytestmark = pytest.mark.docker


@pytest.fixture
def proxy(tmp_path: Path, engine_url: str) -> Iterator[EngineProxy]:
    with EngineProxy(tmp_path / "engine.sock", Path(engine_url.removeprefix("unix://")), random.Random(0)) as proxy:
        yield proxy


@pytest.fixture
def bench(tmp_path: Path, proxy: EngineProxy) -> Iterator[Bench]:
    made = docker_bench(tmp_path, proxy.url)
    yield made
    proxy.errors.clear()
    proxy.dead = ""
    made.close()


def two(bench: Bench) -> tuple[ObservedTask, ObservedTask]:
    """One that failed, and one that was well. What was seen of them is known to the runtime that saw it."""
    bad, good = bench.start(shell("echo words; exit 3")), bench.start(shell("true"))
    return bench.wait_for_end(bad), bench.wait_for_end(good)


def renewed(bench: Bench) -> None:
    """As after a restart of the service: what was known of containers is not."""
    bench.made.insert(0, bench.make())


@pytest.mark.parametrize("status", [409, 500])
def test_a_container_that_can_not_be_inspected_is_given_up_after_a_while_alone(
    bench: Bench, proxy: EngineProxy, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = two(bench)
    proxy.errors = {f"GET .*/containers/({bad.container}|{bad.task_id})/json": status}
    renewed(bench)
    seen = {task.task_id: task for task in bench.runtime.observe()}
    assert seen[good.task_id] == good
    assert seen[bad.task_id].state is EngineState.RUNNING  # nobody can say how it ended: that may pass
    monkeypatch.setattr(states, "PATIENCE_S", 0.0)
    given_up = bench.see(bad.task_id)
    assert given_up is not None
    assert given_up.state is EngineState.LOST
    assert "can't be inspected" in given_up.error
    proxy.errors.clear()
    again = bench.see(bad.task_id)
    assert again is not None
    assert (again.state, again.exit_code) == (EngineState.EXITED, 3)


def test_a_container_that_is_gone_between_two_questions_is_gone_alone(bench: Bench, proxy: EngineProxy) -> None:
    bad, good = two(bench)
    proxy.errors = {f"GET .*/containers/{bad.container}/json": 404}
    renewed(bench)
    assert bench.runtime.observe() == [good]


@pytest.mark.parametrize("what", ["GET .*/containers/{}/logs", "GET .*/images/.*/json"])
@pytest.mark.parametrize("status", [404, 409, 500])
def test_how_a_container_ended_is_known_without_its_log_and_its_image(
    bench: Bench, proxy: EngineProxy, what: str, status: int
) -> None:
    bad, good = two(bench)
    proxy.errors = {what.format(bad.container): status}
    renewed(bench)
    ends = {task.task_id: (task.state, task.exit_code) for task in bench.runtime.observe()}
    assert ends == {bad.task_id: (EngineState.EXITED, 3), good.task_id: (EngineState.EXITED, 0)}


@pytest.mark.parametrize("status", [404, 409, 500])
def test_a_log_that_the_engine_lost_says_that_it_is_missing(
    bench: Bench, proxy: EngineProxy, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that had succeeded showed an empty log, as if it had written nothing."""
    monkeypatch.setattr(logs, "_RETRY_S", (0.05,))
    proxy.errors = {"GET .*/containers/.*/logs": status}
    task = bench.start(shell("echo words"))
    assert bench.wait_for_end(task).exit_code == 0
    bench.wait_for_output(task, b"is missing: the engine lost it")
    assert bench.read(task).count(b"[schedulearn]") == 1


def test_a_log_that_nobody_read_before_its_container_was_removed_says_that_it_is_missing(
    bench: Bench, proxy: EngineProxy, engine_url: str
) -> None:
    proxy.errors = {"GET .*/containers/.*/logs": 500}
    task = bench.start(shell("echo words; sleep 100"))
    with closing(Engine(engine_url)) as engine:
        engine.api.remove_container(task, force=True)
    bench.wait_for_output(task, b"is missing: the engine lost it")


def test_a_dead_container_is_lost_alone_and_doctor_names_it(bench: Bench, proxy: EngineProxy) -> None:
    bad, good = two(bench)
    proxy.dead = bad.container
    proxy.errors = {
        f"GET .*/containers/{bad.container}/logs": 409,
        f"DELETE .*/containers/{bad.container}": 500,
        f"POST .*/containers/{bad.container}/stop": 500,
    }
    renewed(bench)
    runtime = bench.runtime
    seen = {task.task_id: task for task in runtime.observe()}
    assert seen[good.task_id] == good
    assert (seen[bad.task_id].state, seen[bad.task_id].error) == (
        EngineState.LOST, "its container is dead: Docker could not remove it",
    )  # fmt: skip
    assert not is_fenced([seen[bad.task_id]], set(), before=True)
    with pytest.raises(ObjectFault):
        runtime.remove(bad.task_id)
    runtime.remove(good.task_id)
    host = HostToSee("gpu2", "docker", "ssh://gpu2", None)
    [finding, *_] = _on_host(host, runtime, set(), set(), [])
    assert finding.check == "containers"
    assert bad.task_id in finding.what
    assert f"docker -H ssh://gpu2 rm -f {bad.task_id}" in finding.advice
    # Whoever follows the advice is rid of it.
    proxy.dead = ""
    proxy.errors.clear()
    runtime.remove(bad.task_id)
    assert runtime.observe() == []


def test_one_that_succeeded_before_it_was_dead_has_succeeded(bench: Bench, proxy: EngineProxy) -> None:
    _, good = two(bench)
    proxy.dead = good.container
    renewed(bench)
    dead = bench.see(good.task_id)
    assert dead is not None
    assert (dead.state, dead.exit_code) == (EngineState.EXITED, 0)


def test_a_volume_and_an_image_that_make_errors_leave_the_others_usable(bench: Bench, proxy: EngineProxy) -> None:
    bad, good = two(bench)
    jobs = [task.task_id.split("-")[1] for task in (bad, good)]
    for task in (bad, good):
        bench.runtime.remove(task.task_id)
    proxy.errors = {f"(DELETE|GET) .*/volumes/schedulearn-checkpoints-{jobs[0]}": 500}
    assert set(jobs) <= set(bench.runtime.checkpoints.jobs())
    with pytest.raises(ObjectFault):
        bench.runtime.checkpoints.drop(jobs[0])
    bench.runtime.checkpoints.drop(jobs[1])
    assert jobs[1] not in bench.runtime.checkpoints.jobs()
    # A helper that can't be removed does not keep a volume from being looked into.
    proxy.errors = {"DELETE .*/containers/": 500}
    assert bench.runtime.checkpoints.changed_at(jobs[0]) is not None
    proxy.errors.clear()
    bench.runtime.checkpoints.drop(jobs[0])


def test_an_engine_that_does_not_answer_is_still_no_answer(bench: Bench, proxy: EngineProxy) -> None:
    two(bench)
    renewed(bench)
    proxy.cut()
    with pytest.raises(RuntimeFault) as caught:
        bench.runtime.observe()
    assert not isinstance(caught.value, ObjectFault)
    proxy.mend()
