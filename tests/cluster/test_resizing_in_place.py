"""Resizes in place through the loop, the agents and the store, over a runtime in memory."""

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime
from resizing import Sized

from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.core.task import EngineState
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.policies.registry import POLICIES
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import repository

ELASTIC: dict[str, Any] = {
    "elastic": True, "resize": "in-place", "launcher": "horovod", "command": "python x.py", "max_gpus": 4,
}  # fmt: skip
SERVICE = ClusterSettings(report_url="http://127.0.0.1:1")


@pytest.fixture(autouse=True)
def sized(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "sized", Sized)


def resize(c: FakeCluster, gpus: int) -> None:
    c.cluster.service.set_policy("sized", "default", {"gpus": gpus})


def running(c: FakeCluster) -> list[str]:
    return sorted(task.task_id[-3:] for task in c.runtime.tasks(EngineState.RUNNING))


def test_a_job_keeps_its_containers_when_it_grows_and_the_first_ones_when_it_shrinks(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=SERVICE) as c:
        resize(c, 2)
        [job] = c.submit(spec(**ELASTIC))
        c.wait(job, "running")
        c.train(job)
        resize(c, 4)
        wait_for(lambda: running(c) == ["1-0", "1-1", "1-2", "1-3"])
        assert len(c.leases()) == 4
        resize(c, 1)  # not before the others have joined: one change at a time
        c.poke()
        c.train(job)
        c.runtime.stubborn = True
        wait_for(lambda: [call for call in c.runtime.calls if call[0] == "stop"])
        assert len(c.leases()) == 4  # until they are gone
        for rank in (1, 2, 3):
            c.runtime.finish(f"schedulearn-{job}-1-{rank}")
        wait_for(lambda: len(c.leases()) == 1)
        assert c.state(job) == "running"
        c.runtime.finish(c.task(job))
        assert c.wait(job, "succeeded").restarts == 0


def test_a_service_that_dies_in_a_resize_carries_on(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    with FakeCluster(tmp_path, runtime=runtime, settings=SERVICE) as c:
        resize(c, 1)
        [job] = c.submit(spec(**ELASTIC))
        c.wait(job, "running")
        c.train(job)
        runtime.fail_next("start", times=1000)  # it decides, and dies before it has started anything
        resize(c, 3)
        wait_for(lambda: len(c.leases()) == 3)
    runtime._closed = False
    runtime._failures.clear()
    with FakeCluster(tmp_path, runtime=runtime, settings=SERVICE) as c:
        wait_for(lambda: running(c) == ["1-0", "1-1", "1-2"])
        c.train(job)
        assert c.job(job).reason == Reason.CONTAINER_RUNNING
        assert c.job(job).attempt == 1


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_trains_ends_the_attempt(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=SERVICE) as c:
        resize(c, 2)
        [job] = c.submit(spec(**ELASTIC))
        c.wait(job, "running")
        c.train(job)
        c.runtime.finish(f"schedulearn-{job}-1-1", 137)
        wait_for(lambda: c.job(job).attempt == 2)
        assert c.job(job).losses == 1
        wait_for(lambda: running(c) == ["2-0", "2-1"])


ENOUGH = 5  # resizes in place, for a run to mean something


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_no_gpu_is_given_twice_and_every_job_comes_to_an_end(tmp_path: Path, seed: int) -> None:
    """Random sizes, workers that join, end, vanish and stand still, cancels and engine faults, then calm."""
    dice = random.Random(seed)
    with FakeCluster(tmp_path, gpus=8, settings=SERVICE) as c:
        resize(c, 2)
        jobs = c.submit(spec(**ELASTIC), spec(**ELASTIC), spec(gpus=2), spec(**ELASTIC))
        for _ in steps(c):
            found = c.runtime.tasks(EngineState.RUNNING)
            match dice.choice([*["train"] * 6, *["size"] * 3, "form", "end", "lose", "cancel", "fault", "submit"]):
                case "train" | "form" as word:
                    for job in jobs:
                        with suppress(ConflictError):
                            c.train(job, **({} if word == "train" else {"forming": True, "trained": 0}))
                case "size":
                    resize(c, dice.randint(1, 4))
                case "end" if found:
                    with suppress(AssertionError, KeyError):  # it ended meanwhile
                        c.runtime.finish(dice.choice(found).task_id, dice.choice([0, 0, 1, 69, 137]))
                case "lose" if found:
                    c.runtime.vanish(dice.choice(found).task_id)
                case "cancel":
                    with suppress(ConflictError):
                        c.cluster.service.cancel(dice.choice(jobs))
                case "fault":
                    c.runtime.fail_next(dice.choice(["observe", "start", "stop", "remove"]))
                case "submit":
                    jobs += c.submit(spec(**ELASTIC))
            decided = c.cluster.loop.stats.decisions
            c.poke()
            wait_for(lambda before=decided: c.cluster.loop.stats.decisions > before)  # type: ignore[misc]
            c.runtime.check()

        def all_ended() -> bool:
            c.poke()
            for task in c.runtime.tasks(EngineState.RUNNING):
                with suppress(AssertionError, KeyError):
                    c.runtime.finish(task.task_id, 0)
            return all(c.state(job) in ("succeeded", "failed", "cancelled") for job in jobs)

        wait_for(all_ended, seconds=60, what=f"all of {len(jobs)} jobs to end")
        wait_for(lambda: c.leases() == [], what="all leases back")
        assert resized_in_place(c) >= ENOUGH, "hardly any was resized in place"


def steps(c: FakeCluster) -> Iterator[int]:
    """On a slow machine fewer of them meet a job that can be resized: more follow, until enough were."""
    for step in range(600):
        if step >= 60 and resized_in_place(c) >= ENOUGH:
            return
        yield step


def resized_in_place(c: FakeCluster) -> int:
    with c.cluster.db.read() as db:
        events = repository.list_events(db, limit=10_000)
    return sum(event.code == Reason.RESIZING_IN_PLACE for event in events)
