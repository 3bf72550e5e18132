"""Jobs get data sets by name: copied to the hosts that lack them before they start, and kept while jobs need them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.code.archive import Kind
from schedulearn.scheduler.control import service
from schedulearn.scheduler.core.people import Actor, Role
from schedulearn.scheduler.data.manifest import ManifestEntry, manifest_of
from schedulearn.scheduler.data.store import DataStore, blob_of
from schedulearn.scheduler.errors import ConflictError, InvalidError, RuntimeFault
from schedulearn.scheduler.hosts.data.data_sets import Offer
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.data.versions import Version

ANN = Actor("ann", Role.USER)


def store_content(store: DataStore, content: bytes, path: str) -> ManifestEntry:
    pieces = iter([content, b""])
    name = blob_of(lambda _: next(pieces))
    with store.append(name, len(content), 0) as upload:
        upload.write(content)
        upload.finish()
    return ManifestEntry(path, Kind.FILE, len(content), blob=name)


def push(c: FakeCluster, name: str, **files: bytes) -> Version:
    items = [store_content(c.cluster.data.store, content, path) for path, content in files.items()]
    offer: Offer = c.cluster.data.push(name, manifest_of(items), ANN, lambda offer: offer)
    assert offer.version is not None
    return offer.version


def env_of(runtime: FakeRuntime, c: FakeCluster, job: str) -> dict[str, str]:
    return runtime.env(c.task(job))


def test_a_job_has_its_data_before_it_starts(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        version = push(c, "faces", a=b"1")
        [job] = c.submit(spec(data=["faces"]))
        c.wait(job, "running")
        assert c.job(job).spec["data"] == {"faces@1": "/data/faces"}
        assert c.job(job).inputs == {"/data/faces": version.digest}
        [task] = c.runtime.tasks()
        assert task.data == {"/data/faces": version.digest}
        assert c.runtime.data.content(version.digest, "a") == b"1"
        assert env_of(c.runtime, c, job)["SCHEDULEARN_DATA_FACES"] == "/data/faces"
        assert "job.pulling" in c.events(job)


def test_a_name_means_its_newest_version_when_the_job_is_submitted(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        push(c, "faces", a=b"1")
        first, waiting = c.submit(spec(data={"faces": "/train"}), spec(data=["faces@1"]))
        push(c, "faces", a=b"2")
        [later] = c.submit(spec(data=["faces"]))
        assert [c.job(job).spec["data"] for job in (first, waiting, later)] == [
            {"faces@1": "/train"},
            {"faces@1": "/data/faces"},
            {"faces@2": "/data/faces"},
        ]


def test_a_version_that_goes_while_a_batch_is_prepared_refuses_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FakeCluster(tmp_path) as c:
        push(c, "faces", a=b"1")
        push(c, "faces", a=b"2")
        prepare = service.prepare_jobs

        def remove_first(*args: Any) -> Any:
            c.cluster.data.remove("faces", 1, ANN, lambda versions: None)
            return prepare(*args)

        monkeypatch.setattr(service, "prepare_jobs", remove_first)
        with pytest.raises(InvalidError, match="faces@1 does not exist"):
            c.submit(spec(), spec(data=["faces@1"]), spec(data=["faces@2"]))
        with c.cluster.db.read() as conn:
            assert sum(repository.count_jobs(conn).values()) == 0


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (["nothing"], "there is no data set or model 'nothing'"),
        (["faces@9"], "the newest version is 1"),
        ({"faces": "/a", "faces@1": "/b"}, "named twice"),
    ],
)
def test_data_that_there_is_not_is_refused(tmp_path: Path, data: Any, told: str) -> None:
    with FakeCluster(tmp_path) as c:
        push(c, "faces", a=b"1")
        with pytest.raises(InvalidError, match=told):
            c.submit(spec(data=data))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (["no name"], "must be NAME, or NAME@3"),
        (["faces@x"], "must be NAME, or NAME@3"),
        ({"faces": "/etc"}, "can't be used for data sets"),
        ({"faces": "/data/../faces"}, "without '..'"),
        ({"faces": "/inputs/x"}, "can't be used for data sets"),
        ({"a": "/d", "b": "/d/e"}, "one inside another"),
        ({"a": "/d", "b": "//d/./e"}, "one inside another"),
    ],
)
def test_what_can_be_no_data_is_refused(data: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        spec(data=data)


class Slow:
    """A runtime whose data comes in two halves; the second one when it is told."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self.go_on = threading.Event()
        self.began = threading.Event()
        self._load = runtime.data.load
        runtime.data.load = self.load  # type: ignore[method-assign]

    def load(self, key: str, archives: Iterable[Iterable[bytes]], parts: Sequence[str] | None = None) -> None:
        self._load(key, [self._slowly(archive) for archive in archives], parts)

    def _slowly(self, archive: Iterable[bytes]) -> Iterator[bytes]:
        for number, piece in enumerate(archive):
            if number == 2:
                self.began.set()
                assert self.go_on.wait(30)
            yield piece


def test_a_job_waits_for_its_data_and_says_how_far_it_is(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        slow = Slow(c.runtime)
        push(c, "faces", a=b"1" * 3_000_000)
        [job] = c.submit(spec(data=["faces"]))
        row = c.wait(job, "pulling")
        assert slow.began.wait(10)
        wait_for(lambda: "of 3 MB" in c.job(job).message and c.poke(), what="how far it is", seconds=20)
        row = c.job(job)
        assert row.message.startswith("Fetching /data/faces on local: copying from the service (")
        assert 0 < row.pull_percent < 100
        assert not c.leases()
        slow.go_on.set()
        c.wait(job, "running")


def test_a_copy_that_was_cut_is_made_anew_and_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeCluster(tmp_path) as c:
        load, there_is_room = c.runtime.data.load, threading.Event()

        def load_if_there_is_room(*given: Any) -> Any:
            if not there_is_room.is_set():
                raise RuntimeFault("the disk is full")
            return load(*given)

        monkeypatch.setattr(c.runtime.data, "load", load_if_there_is_room)
        version = push(c, "faces", a=b"1")
        [job] = c.submit(spec(data=["faces"]))
        wait_for(lambda: "the disk is full" in c.job(job).message, what="the reason")
        assert not c.runtime.data.has(version.digest)
        there_is_room.set()
        c.wait(job, "running")
        assert c.runtime.data.content(version.digest, "a") == b"1"


@pytest.mark.slow
def test_a_copy_that_was_cut_goes_on_with_the_files_that_did_not_arrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedulearn.scheduler.hosts.data.sources.PART_BYTES", 1_000)
    runtime = FakeRuntime("local")
    sent: list[list[bytes]] = []
    load = runtime.data.load

    def cut_in_the_third(key: str, archives: Iterable[Iterable[bytes]], parts: Sequence[str] | None = None) -> None:
        sent.append([])
        first = len(sent) == 1

        def pieces(archive: Iterable[bytes]) -> Iterator[bytes]:
            if first and len(sent[0]) == 2:
                raise RuntimeFault("the cable was cut")
            sent[-1].append(b"".join(archive))
            yield sent[-1][-1]

        load(key, (pieces(archive) for archive in archives), parts)

    monkeypatch.setattr(runtime.data, "load", cut_in_the_third)
    contents = {name: name.encode() * 200_000 for name in ("one", "two", "three", "four")}
    with FakeCluster(tmp_path, runtime=runtime) as c:
        version = push(c, "faces", **contents)
        [job] = c.submit(spec(data=["faces"]))
        wait_for(lambda: "the cable was cut" in c.job(job).message, what="the reason")
        c.wait(job, "running")
        assert [len(each) for each in sent] == [2, 2]
        assert not set(sent[0]) & set(sent[1])
        assert [runtime.data.content(version.digest, name) for name in ("one", "two", "three", "four")] == list(
            contents.values()
        )


def test_a_copy_that_was_cut_goes_once_no_job_needs_it(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        version = push(c, "faces", a=b"1")

        def cut() -> Iterator[Iterable[bytes]]:
            raise RuntimeFault("the service was killed")
            yield []

        with pytest.raises(RuntimeFault):
            c.runtime.data.load(version.digest, cut(), ["a"])
        c.runtime.fail_next("data.load", RuntimeFault("the disk is full"), times=1000)
        [job] = c.submit(spec(data=["faces"]))
        wait_for(lambda: "the disk is full" in c.job(job).message, what="the reason")
        c.cluster.housekeeping.tidy()
        assert c.runtime.data.unfinished() == [version.digest]
        c.cluster.service.cancel(job)
        c.cluster.housekeeping.tidy()
        assert c.runtime.data.unfinished() == []


def test_a_service_that_is_started_again_brings_what_was_not_whole(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    slow = Slow(runtime)
    with FakeCluster(tmp_path, runtime=runtime) as c:
        version = push(c, "faces", a=b"1" * 3_000_000)
        [job] = c.submit(spec(data=["faces"]))
        assert slow.began.wait(10)
        ends = threading.Timer(0.5, slow.go_on.set)
        ends.start()
        c.cluster.agents["local"]._stopping = True
    again = FakeRuntime("local")
    with FakeCluster(tmp_path, runtime=again) as c:
        c.wait(job, "running")
        assert again.data.content(version.digest, "a") == b"1" * 3_000_000


def test_content_that_is_gone_ends_the_job_with_the_reason(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        push(c, "faces", a=b"1")
        for path in (tmp_path / "data-sets" / "versions").iterdir():
            path.unlink()
        [job] = c.submit(spec(data=["faces"]))
        row = c.wait(job, "failed")
        assert (row.reason, "push it again" in row.message) == ("image_unavailable", True)


def test_a_host_that_has_the_data_is_preferred(tmp_path: Path) -> None:
    other = FakeRuntime("gpu2")
    with FakeCluster(tmp_path, gpus=2, others={"gpu2": other}) as c:
        version = push(c, "faces", a=b"1")
        c.add("gpu2", gpus=2)
        other.data.load(version.digest, c_archive(c, version))
        [job] = c.submit(spec(data=["faces"]))
        wait_for(lambda: c.state(job) in ("running", "pulling") and other.tasks(), what="a start on gpu2")
        assert not c.runtime.data.has(version.digest)


def c_archive(c: FakeCluster, version: Version) -> list[Iterator[bytes]]:
    return [c.cluster.data.store.pack(c.cluster.data.store.manifest(version.digest))]


def test_data_that_a_job_needs_is_not_removed(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        push(c, "faces", a=b"1")
        [job] = c.submit(spec(data=["faces"]))
        c.wait(job, "running")
        with pytest.raises(ConflictError, match=f"job {job} needs faces@1"):
            c.cluster.data.remove("faces", None, ANN, len)
        c.runtime.finish(c.task(job))
        c.wait(job, "succeeded")
        assert c.cluster.data.remove("faces", None, ANN, len) == 1


def test_copies_on_hosts_go_by_last_use_and_never_those_of_live_jobs(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(data_room=2_500_000)) as c:
        sets = [push(c, name, a=os.urandom(1_000_000)) for name in ("one", "two", "three", "four")]
        for version in sets[:3]:
            [job] = c.submit(spec(data=[version.reference]))
            c.wait(job, "running")
            if version is not sets[0]:
                c.runtime.finish(c.task(job))
                c.wait(job, "succeeded")
        c.cluster.housekeeping.tidy()
        there = [c.runtime.data.has(version.digest) for version in sets]
        assert there == [True, False, True, False]  # the first one is used by a job that runs
        [again] = c.submit(spec(data=["two"]))
        c.wait(again, "running")


def test_a_task_whose_data_was_removed_gets_it_again(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        version = push(c, "faces", a=b"1")
        [first] = c.submit(spec(data=["faces"]))
        c.wait(first, "running")
        c.runtime.finish(c.task(first))
        c.wait(first, "succeeded")
        c.runtime.remove(c.task(first))
        wait_for(lambda: not c.runtime.tasks(), what="its removal")
        c.runtime.data.drop(version.digest)  # behind the back of the service, which takes it to be there
        [second] = c.submit(spec(data=["faces"]))
        c.wait(second, "running")
        assert c.runtime.data.has(version.digest)


def test_content_that_no_version_names_is_collected(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        push(c, "faces", a=b"1" * 1000)
        second = push(c, "faces", a=b"2" * 1000)
        c.cluster.data.remove("faces", 1, ANN, len)
        assert c.cluster.data.collect() == 0  # it may be about to be pushed again
        assert c.cluster.data.store.collect(lambda: {second.digest}, time.time() + 90_000) == 1000
