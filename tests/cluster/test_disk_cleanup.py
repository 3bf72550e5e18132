"""What goes when a disk is full, and what never does."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.job_image import layer_of, layered
from schedulearn.scheduler.core.needs import Image
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.errors import ConflictError
from schedulearn.scheduler.hosts.disk_cleanup import Housekeeping, StoredItem, surplus
from schedulearn.scheduler.runtimes.contract import FetchProgress
from schedulearn.scheduler.settings import ClusterSettings

items = st.lists(
    st.builds(StoredItem, st.text(min_size=1, max_size=3), st.integers(0, 100), st.none() | st.floats(0, 1e9)),
    unique_by=lambda item: item.name,
    max_size=10,
)


@given(items=items, room=st.integers(0, 400))
def test_no_more_goes_than_must_and_nothing_that_must_stay(items: list[StoredItem], room: int) -> None:
    total = sum(item.bytes for item in items)
    by_name = {item.name: item for item in items}
    gone = surplus(items, total, room)
    assert len(set(gone)) == len(gone)
    assert all(by_name[name].used_at is not None for name in gone)
    left = total - sum(by_name[name].bytes for name in gone)
    may_still_go = [item for item in items if item.used_at is not None and item.name not in gone]
    assert room == 0 or left <= room or not may_still_go
    if gone:
        assert left + by_name[gone[-1]].bytes > room
        oldest_left = min((item.used_at or 0.0 for item in may_still_go), default=float("inf"))
        assert max(by_name[name].used_at or 0.0 for name in gone) <= oldest_left


def housekeeping(c: FakeCluster, settings: ClusterSettings) -> Housekeeping:
    return Housekeeping(c.cluster.db, lambda: c.cluster.agents, c.cluster.logs, c.cluster.code, settings)


def test_the_image_that_jobs_used_longest_ago_goes_and_others_images_stay(tmp_path: Path) -> None:
    runtime = FakeRuntime("local", images={"old:latest", "new:1", "waiting:1", "foreign:1", "wanted:1"})
    runtime.images.present.update({"old"})  # type: ignore[union-attr]  # as an engine finds it, by its short name
    with FakeCluster(tmp_path, runtime=runtime) as c:
        for image in ("old", "wanted:1", "new:1"):
            [job] = c.submit(spec(container_image=image))
            c.wait(job, "running")
            runtime.finish(c.task(job))
            c.wait(job, "succeeded")
        wait_for(lambda: not runtime.tasks())
        c.submit(spec(container_image="waiting:1", gpus=64))
        runtime.images.present.discard("old")  # type: ignore[union-attr]
        housekeeping(c, ClusterSettings(image_room=4 * GIB, images=["wanted:1"])).tidy()
        assert runtime.images.present == {"new:1", "waiting:1", "foreign:1", "wanted:1"}
        housekeeping(c, ClusterSettings(image_room=1, images=["wanted:1"])).tidy()
        assert runtime.images.present == {"waiting:1", "foreign:1", "wanted:1"}


def deleted(c: FakeCluster, job: str) -> bool:
    """An agent may not have seen yet that its containers are gone."""
    try:
        return c.cluster.service.delete(job, lambda db, row: True, shown=c.cluster.shows)
    except ConflictError:
        return False


def test_layers_go_by_last_use_and_first_those_whose_jobs_were_deleted(tmp_path: Path) -> None:
    names = [layered("img", layer_of([each])) for each in ("a", "b", "c", "d")]
    runtime = FakeRuntime("local", images={"img"}, fetchable={name: [] for name in names})
    with FakeCluster(tmp_path, runtime=runtime) as c:
        for line in ("b", "a", "c", "b"):
            [job] = c.submit(spec(requirements=[line]))
            c.wait(job, "running")
            runtime.finish(c.task(job))
            c.wait(job, "succeeded")
            wait_for(lambda: not runtime.tasks())
            if line == "c":
                wait_for(partial(deleted, c, job), what="its deletion")
        [waiting] = c.submit(spec(requirements=["d"]))
        c.wait(waiting, "running")

        def left(room: int) -> list[str]:
            housekeeping(c, ClusterSettings(image_room=room * GIB, images=["img"])).tidy()
            return sorted(each for each, name in zip("abcd", names, strict=True) if name in runtime.images.present)

        assert [left(room) for room in (5, 4, 3, 2, 1)] == [[*"abcd"], [*"abd"], [*"bd"], ["d"], ["d"]]
        began = len(runtime.calls)
        [again] = c.submit(spec(requirements=["a"]))
        c.wait(again, "running")
        calls = runtime.calls[began:]
        assert [name for name, _ in calls].count("start") == 1, "it was not tried without its layer"


def test_logs_and_checkpoints_of_ended_jobs_make_room_oldest_first(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        jobs = c.submit(spec(), spec(), spec())
        for job in jobs:
            c.wait(job, "running")
            c.runtime.write_checkpoint(job, b"x" * 100)
            writer = c.cluster.logs.writer(c.task(job))
            writer.append(b"y" * 1000)
            writer.close()
        for job in jobs[:2]:
            c.runtime.finish(c.task(job))
            c.wait(job, "succeeded")
            wait_for(lambda job=job: c.task(job) not in [task.task_id for task in c.runtime.tasks()])  # type: ignore[misc]
        housekeeping(c, ClusterSettings(checkpoint_room=250, log_room=2500)).tidy()
        assert list(c.runtime.checkpoints.jobs()) == sorted(jobs[1:])
        assert set(c.cluster.logs.sizes()) == {c.task(job) for job in jobs[1:]}
        housekeeping(c, ClusterSettings(checkpoint_room=1, log_room=1)).tidy()
        assert list(c.runtime.checkpoints.jobs()) == [jobs[2]], "a job that runs keeps what it has"
        assert set(c.cluster.logs.sizes()) == {c.task(jobs[2])}


def test_wanted_images_come_before_a_job_needs_them(tmp_path: Path) -> None:
    runtime = FakeRuntime("local", images=set(), fetchable={"wanted:1": [FetchProgress(50.0, "half")]})
    with FakeCluster(tmp_path, runtime=runtime) as c:
        wait_for(lambda: c.cluster.agents["local"].status.observation)
        housekeeping(c, ClusterSettings(images=["wanted:1", "nowhere:1"])).tidy()
        wait_for(lambda: c.cluster.agents["local"].has(Image("wanted:1")), what="the image")
        wait_for(lambda: Image("nowhere:1") in c.cluster.agents["local"].fetches(), what="why the other can't be had")
