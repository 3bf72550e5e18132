"""Checkpoints follow their jobs from host to host, whatever breaks on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.hosts.checkpoints import Checkpoints, Copies
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import repository


@contextmanager
def moved_away(c: FakeCluster, content: bytes = b"step 7") -> Iterator[str]:
    """A job that has written a checkpoint on `a` and is about to start on `b`."""
    c.add("a", "b")
    c.cluster.fleet.set_state("b", "cordoned")
    [job] = c.submit(spec(elastic=True, max_gpus=1))
    c.wait(job, "running")
    assert c.job(job).checkpoint_host == "a"
    c.runtimes["a"].write_checkpoint(job, content)
    yield job
    c.cluster.fleet.set_state("b", "active")
    c.cluster.fleet.drain("a", 0.0)


class Lab(FakeCluster):
    def __init__(self, directory: Path, settings: ClusterSettings = ClusterSettings()) -> None:
        self.runtimes = {name: FakeRuntime(name) for name in ("a", "b")}
        super().__init__(directory, gpus=0, others=self.runtimes, settings=settings)

    def message(self, job: str) -> str:
        with self.cluster.db.read() as db:
            found = [e.message for e in repository.list_events(db, job_id=job) if e.kind == "job.checkpoints"]
        return found[-1] if found else ""

    def on_b(self, job: str) -> None:
        wait_for(lambda: self.job(job).checkpoint_host == "b" and self.state(job) == "running", what="its start on b")


def test_they_are_brought_to_the_new_host_before_the_job_starts_there(tmp_path: Path) -> None:
    with Lab(tmp_path) as c:
        with moved_away(c) as job:
            pass
        c.on_b(job)
        assert c.runtimes["b"].read_checkpoint(job) == b"step 7"
        assert "copied from a to b" in c.message(job)
        c.cluster.checkpoints.sweep()
        assert c.runtimes["a"].read_checkpoint(job) is None, "what a job leaves behind is removed"
        assert c.runtimes["b"].read_checkpoint(job) == b"step 7"


class DeletedMeanwhile(Checkpoints):
    """Another job is deleted while its first sweep runs."""

    sweeps = 0

    def sweep(self) -> None:
        self.sweeps += 1
        if self.sweeps == 1:
            self.sweep_soon()


def test_what_is_deleted_while_a_sweep_runs_is_swept_right_after_it(tmp_path: Path) -> None:
    with Lab(tmp_path) as c:
        checkpoints = DeletedMeanwhile(c.cluster.db, dict, Copies(tmp_path / "copies", 0), keep_s=0.0, every_s=0.01)
        checkpoints.start()
        checkpoints.sweep_soon()
        try:
            wait_for(lambda: checkpoints.sweeps == 2, what="the second sweep", seconds=10)
        finally:
            checkpoints.close()


def test_a_transfer_that_breaks_is_tried_again_and_the_source_stays(tmp_path: Path) -> None:
    with Lab(tmp_path) as c:
        with moved_away(c) as job:
            c.runtimes["b"].fail_next("checkpoints.load", RuntimeFault("disk full"))
        c.on_b(job)
        assert c.runtimes["b"].read_checkpoint(job) == b"step 7"
        assert c.runtimes["a"].read_checkpoint(job) == b"step 7"


@pytest.mark.slow
def test_a_job_whose_host_is_lost_goes_on_from_the_copy(tmp_path: Path) -> None:
    with Lab(tmp_path, settings=ClusterSettings(host_grace=0.2)) as c:
        with moved_away(c) as job:
            c.cluster.checkpoints.copy()
            c.runtimes["a"].write_checkpoint(job, b"step 8, which nobody copied")
            c.cluster.fleet.set_state("b", "active")
            c.runtimes["a"].silent = True
            wait_for(lambda: c.poke() and c.job(job).checkpoint_host == "b", what="its start on b")
            assert c.runtimes["b"].read_checkpoint(job) == b"step 7"
            assert "a does not answer: it continues from the service's copy" in c.message(job)
            c.runtimes["a"].silent = False
            wait_for(lambda: c.poke() and not c.runtimes["a"].tasks(), what="the lost container to be removed")
        c.wait(job, "running")
        c.cluster.checkpoints.sweep()
        assert c.runtimes["a"].read_checkpoint(job) is None


def test_without_a_copy_it_begins_anew_and_says_so(tmp_path: Path) -> None:
    with Lab(tmp_path, settings=ClusterSettings(host_grace=0.2)) as c, moved_away(c) as job:
        c.cluster.fleet.set_state("b", "active")
        c.runtimes["a"].silent = True
        wait_for(lambda: c.poke() and c.job(job).checkpoint_host == "b", what="its start on b")
        assert "there is no copy: it starts from the beginning" in c.message(job)
        c.runtimes["a"].silent = False
        wait_for(lambda: c.poke() and not c.runtimes["a"].tasks(), what="the lost container to be removed")


def test_copies_are_whole_bounded_and_no_older_than_what_they_replace(tmp_path: Path) -> None:
    copies = Copies(tmp_path / "copies", 100)
    assert copies.time_of("a") is None
    copies.save("a", iter([b"x" * 40, b"y" * 20]), 1000.0)
    assert copies.time_of("a") == 1000.0
    with pytest.raises(RuntimeFault, match="checkpoint_copies"):
        copies.save("b", iter([b"x" * 41]), 1.0)
    copies.save("b", iter([b"x" * 40]), 1.0)

    def broken() -> Iterator[bytes]:
        yield b"z"
        raise RuntimeFault("the cable was cut")

    with pytest.raises(RuntimeFault, match="cable"):
        copies.save("a", broken(), 2000.0)
    assert b"".join(copies.read("a")) == b"x" * 40 + b"y" * 20
    assert copies.time_of("a") == 1000.0
    assert sorted(copies.jobs()) == ["a", "b"]
    copies.drop("a")
    assert copies.jobs() == ["b"]
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["b.tar"]
