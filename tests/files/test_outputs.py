"""Outputs follow their jobs, are read from wherever they are, and go by rule."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.errors import FilesGoneError, NotFoundError, RuntimeFault
from schedulearn.scheduler.hosts.outputs import Outputs
from schedulearn.scheduler.runtimes.contract import UntrackedFile
from schedulearn.scheduler.runtimes.untracked import may_matter, told
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store import repository


class Lab(FakeCluster):
    """Two hosts, of which `b` takes jobs once `a` is drained."""

    def __init__(self, directory: Path, settings: ClusterSettings = ClusterSettings()) -> None:
        self.runtimes = {name: FakeRuntime(name) for name in ("a", "b")}
        super().__init__(directory, gpus=0, others=self.runtimes, settings=settings)

    def job_on_a(self) -> str:
        self.add("a", "b")
        self.cluster.fleet.set_state("b", "cordoned")
        [job] = self.submit(spec(elastic=True, max_gpus=1))
        self.wait(job, "running")
        self.runtimes["a"].write_output(job, "model.pt", b"step 7")
        return job

    def move(self, job: str, source: str, target: str) -> None:
        self.cluster.fleet.set_state(target, "active")
        self.cluster.fleet.drain(source, 0.0)
        wait_for(lambda: self.job(job).checkpoint_host == target and self.state(job) == "running", what="its start")

    def names(self, job: str, path: str = "outputs") -> dict[str, str]:
        """File -> the host that it is on."""
        found = self.cluster.files.listing(job, path, host=None, after="", limit=100)
        return {entry.name: host for host, entry in found.entries}

    def read(self, job: str, path: str, host: str | None = None) -> bytes:
        file = self.cluster.files.open(job, path, host=host)
        try:
            return b"".join(file.read(0, file.entry.bytes))
        finally:
            file.close()

    def told(self, job: str) -> list[str]:
        with self.cluster.db.read() as db:
            return [e.message for e in repository.list_events(db, job_id=job) if e.kind == "job.outputs"]


def test_outputs_move_with_the_job_and_what_is_left_behind_goes(tmp_path: Path) -> None:
    with Lab(tmp_path) as c:
        job = c.job_on_a()
        c.move(job, "a", "b")
        assert c.runtimes["b"].outputs.content(job, "model.pt") == b"step 7"
        c.runtimes["b"].write_output(job, "model.pt", b"step 8")
        c.cluster.outputs.sweep()
        assert list(c.runtimes["a"].outputs.jobs()) == [], "what a job moved from is removed"
        assert c.names(job) == {"model.pt": "b"}
        c.move(job, "b", "a")
        assert c.read(job, "outputs/model.pt") == b"step 8"
        c.runtimes["a"].write_output(job, "model.pt", b"step 9")
        assert c.names(job) == {"model.pt": "a"}
        c.cluster.outputs.sweep()
        assert c.read(job, "outputs/model.pt") == b"step 9"
        assert list(c.runtimes["b"].outputs.jobs()) == []


def test_a_transfer_that_breaks_is_tried_again_and_nothing_goes_before(tmp_path: Path) -> None:
    with Lab(tmp_path) as c:
        job = c.job_on_a()
        c.runtimes["b"].fail_next("outputs.load", RuntimeFault("disk full"))
        c.move(job, "a", "b")
        assert c.runtimes["b"].outputs.content(job, "model.pt") == b"step 7"
        assert c.runtimes["b"].calls.count(("outputs.load", job)) == 2


def test_outputs_of_a_lost_host_wait_for_it_and_are_never_swept_as_left_behind(tmp_path: Path) -> None:
    with Lab(tmp_path, settings=ClusterSettings(host_grace=0.2)) as c:
        job = c.job_on_a()
        c.runtimes["a"].write_output(job, "plots/early.png", b"png")
        c.cluster.fleet.set_state("b", "active")
        c.runtimes["a"].silent = True
        wait_for(lambda: c.poke() and c.job(job).checkpoint_host == "b", what="its start on b")
        assert "a does not answer" in c.told(job)[0]
        c.runtimes["b"].write_output(job, "model.pt", b"begun anew")
        found = c.cluster.files.listing(job, "outputs", host=None, after="", limit=10)
        assert (list(found.hosts), list(found.away)) == (["b"], ["a"])
        with pytest.raises(RuntimeFault, match=r"a \(does not answer\)"):
            c.read(job, "outputs/plots/early.png")
        c.runtimes["a"].silent = False
        wait_for(lambda: c.poke() and not c.runtimes["a"].tasks(), what="the lost container to be removed")
        c.cluster.outputs.sweep()
        assert c.names(job) == {"model.pt": "b", "plots": "a"}
        assert c.read(job, "outputs/plots/early.png") == b"png"
        assert c.read(job, "outputs/model.pt") == b"begun anew", "where the job is now comes first"
        assert c.read(job, "outputs/model.pt", host="a") == b"step 7"
        with pytest.raises(NotFoundError, match="on 'c'"):
            c.read(job, "outputs/model.pt", host="c")


def test_each_host_of_a_job_over_several_keeps_what_its_rank_wrote(tmp_path: Path) -> None:
    with Lab(tmp_path) as c:
        c.add("a", "b", gpus=2)
        [job] = c.submit(spec(gpus=4))
        c.wait(job, "running")
        home = c.job(job).checkpoint_host
        [other] = {"a", "b"} - {home}
        c.runtimes[home].write_output(job, "model.pt", b"weights")
        c.runtimes[other].write_output(job, "rank-1.log", b"log")
        assert c.names(job) == {"model.pt": home, "rank-1.log": other}
        for runtime in c.runtimes.values():
            for task in runtime.tasks():
                runtime.finish(task.task_id)
        c.wait(job, "succeeded")
        wait_for(lambda: not any(r.tasks() for r in c.runtimes.values()), what="the containers to be removed")
        c.cluster.outputs.sweep()
        assert c.read(job, "outputs/rank-1.log") == b"log"


def test_outputs_go_when_their_time_is_over_and_when_nobody_knows_their_job(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit()
        c.wait(job, "running")
        c.runtime.write_output(job, "model.pt", b"weights")
        c.runtime.finish(f"schedulearn-{job}-1-0")
        c.wait(job, "succeeded")
        wait_for(lambda: not c.runtime.tasks(), what="the container to be removed")
        c.runtime.write_output("stranger", "x", b"x")
        c.cluster.outputs.sweep()
        assert list(c.runtime.outputs.jobs()) == [job]
        later = Outputs(c.cluster.db, lambda: c.cluster.agents, 3600.0, clock=lambda: time.time() + 3601)
        later.sweep()
        assert list(c.runtime.outputs.jobs()) == []
        with pytest.raises(FilesGoneError, match="keep_outputs"):
            c.cluster.files.listing(job, "outputs", host=None, after="", limit=10)


def test_outputs_of_ended_jobs_go_oldest_first_where_their_room_is_full(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(output_room=250)) as c:
        jobs = c.submit(spec("one"), spec("two"), spec("three"))
        for job in jobs:
            c.wait(job, "running")
            c.runtime.write_output(job, "model.pt", b"x" * 100)
        for job in jobs[:2]:
            c.runtime.finish(f"schedulearn-{job}-1-0")
            c.wait(job, "succeeded")
        wait_for(lambda: len(c.runtime.tasks()) == 1, what="the containers to be removed")
        c.cluster.housekeeping.tidy()
        assert list(c.runtime.outputs.jobs()) == sorted(jobs[1:])


def test_settings_have_thirty_days() -> None:
    assert ClusterSettings().keep_outputs == 30


def test_a_model_that_was_written_elsewhere_is_named_before_it_goes(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit()
        c.wait(job, "running")
        task = f"schedulearn-{job}-1-0"
        c.runtime.write_elsewhere(task, "/workspace/model.pt", 45_000_000)
        c.runtime.write_elsewhere(task, "/root/.cache/torch/x", 99)
        c.runtime.fail_next("remove")
        c.runtime.finish(task)
        c.wait(job, "succeeded")
        wait_for(lambda: c.poke() and not c.runtime.tasks(), what="the container to be removed", seconds=20)
        with c.cluster.db.read() as db:
            [event] = [e for e in repository.list_events(db, job_id=job) if e.kind == "job.stray_files"]
        assert event.message == (
            "/workspace/model.pt (45 MB) was written to the container's own disk, which is deleted with the "
            "container: write results to /outputs (SCHEDULEARN_OUTPUT_DIR)."
        )
        assert event.data == {"files": [{"path": "/workspace/model.pt", "bytes": 45_000_000}]}
        assert [call for call, _ in c.runtime.calls if call == "untracked_files"] == ["untracked_files"] * 2, (
            "told once all the same"
        )


def test_the_warning_says_where_they_were_as_the_task_saw_it() -> None:
    assert told([UntrackedFile("/data/tasks/x/work/model.pt", 1)], contained=False) == (
        "/data/tasks/x/work/model.pt (1 byte) was written to the attempt's own folder, which is deleted with it: "
        "write results to SCHEDULEARN_OUTPUT_DIR."
    )


def test_a_host_that_can_not_tell_what_was_written_elsewhere_removes_the_container_all_the_same(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit()
        c.wait(job, "running")
        c.runtime.fail_next("untracked_files")
        c.runtime.finish(f"schedulearn-{job}-1-0")
        c.wait(job, "succeeded")
        wait_for(lambda: not c.runtime.tasks(), what="the container to be removed")


@pytest.mark.slow
def test_what_the_end_of_the_service_keeps_from_being_told_is_told_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked, closed = threading.Event(), threading.Event()

    def cut_off(task_id: str) -> Sequence[UntrackedFile]:
        asked.set()
        assert closed.wait(60)
        raise RuntimeFault("the connection is closed")

    with FakeCluster(tmp_path) as c:
        [job] = c.submit()
        c.wait(job, "running")
        monkeypatch.setattr(c.runtime, "untracked_files", cut_off)
        monkeypatch.setattr(c.runtime, "close", closed.set)
        c.runtime.finish(f"schedulearn-{job}-1-0")
        assert asked.wait(60)
    assert len(c.runtime.tasks()) == 1, "its files are there for the next service to name"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("path", "matters"),
    [
        ("/workspace/model.pt", True), ("/root/runs/1/events", True), ("/home/me/x", True), ("/model.pt", True),
        ("/tmp/x", False), ("/root/.cache/x", False), ("/opt/conda/lib/x", False), ("/usr/lib/x", False), ("/", False),
        ("/app/__pycache__/a.cpython-311.pyc", False), ("/app/venv/lib/python3/site-packages/x", False),
    ],
)  # fmt: skip
def test_what_programs_leave_behind_by_themselves_is_not_told(path: str, matters: bool) -> None:
    assert may_matter(path) is matters


def test_the_largest_of_many_are_named() -> None:
    files = [UntrackedFile(f"/w/{size}", size) for size in (2_500_000_000, 1_500_000, 30_000, 5, 4)]
    assert told(files, contained=True).startswith(
        "/w/2500000000 (2.5 GB), /w/1500000 (1.5 MB), /w/30000 (30 kB) and 2 more were written"
    )
