"""Outputs end as data sets and models, and as what later jobs read at /inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.needs import outputs_key
from schedulearn.scheduler.core.people import Actor, Role
from schedulearn.scheduler.errors import ForbiddenError, NotFoundError
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.specs.job import JobSpec
from schedulearn.scheduler.store.data import versions
from schedulearn.scheduler.store.data.versions import Version


def run(c: FakeCluster, job: str, code: int = 0, runtime: FakeRuntime | None = None, **outputs: bytes) -> None:
    c.wait(job, "running")
    for name, content in outputs.items():
        (runtime or c.runtime).write_output(job, name, content)
    (runtime or c.runtime).finish(c.task(job), code)
    c.wait(job, "succeeded", "failed")


def version(c: FakeCluster, name: str) -> Version | None:
    with c.cluster.db.read() as conn:
        try:
            return versions.find(conn, name, None)
        except NotFoundError:
            return None


def kept(c: FakeCluster, job: str) -> bool:
    return bool(c.job(job).keep_state == "done")


def content(c: FakeCluster, made: Version) -> dict[str, bytes]:
    store = c.cluster.data.store
    return {item.path: store._blob(item.blob).read_bytes() for item in store.manifest(made.digest).items}


def test_outputs_end_as_a_model_that_names_its_job(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(keep={"model": "best", "all": "/outputs"}, user="ann"))
        run(c, job, best=b"weights", log=b"text")
        wait_for(lambda: kept(c, job), what="the model")
        made, everything = version(c, "model"), version(c, "all")
        assert made is not None
        assert everything is not None
        assert (made.reference, made.job_id, made.user, made.bytes) == ("model@1", job, "ann", 7)
        assert content(c, made) == {"best": b"weights"}
        assert content(c, everything) == {"best": b"weights", "log": b"text"}
        [user] = c.submit(spec(data=["model"]))
        c.wait(user, "running")
        assert c.runtime.data.content(made.digest, "best") == b"weights"


def test_a_job_that_fails_makes_nothing(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(keep={"model": "best"}))
        run(c, job, 1, best=b"weights")
        wait_for(lambda: kept(c, job), what="the end")
        assert version(c, "model") is None


def test_an_output_that_is_not_there_is_told(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(keep={"model": "best", "other": "log"}))
        run(c, job, log=b"text")
        wait_for(lambda: kept(c, job), what="the end")
        assert "job.not_kept" in c.events(job)
        assert version(c, "model") is None
        assert version(c, "other") is not None


@pytest.mark.slow
def test_a_host_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(keep={"model": "best"}))
        c.runtime.fail_next("outputs.view", times=2)
        run(c, job, best=b"weights")
        wait_for(lambda: version(c, "model"), what="the model", seconds=20)


def test_a_service_that_was_away_makes_it_when_it_is_back(tmp_path: Path) -> None:
    runtime = FakeRuntime("local")
    with FakeCluster(tmp_path, runtime=runtime) as c:
        c.cluster.kept_outputs.close()
        [job] = c.submit(spec(keep={"model": "best"}))
        run(c, job, best=b"weights")
    again = FakeRuntime("local")
    again.write_output(job, "best", b"weights")
    with FakeCluster(tmp_path, runtime=again) as c:
        wait_for(lambda: version(c, "model"), what="the model")


def test_a_name_of_somebody_else_is_refused(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(keep={"model": "best"}, user="ann"))
        run(c, job, best=b"weights")
        wait_for(lambda: version(c, "model"), what="the model")
        with pytest.raises(ForbiddenError, match="belongs to ann"):
            c.submit(spec(keep={"model": "best"}, user="bob"))
        assert c.cluster.data.remove("model", None, Actor("ann", Role.USER), len) == 1


def test_outputs_beyond_their_users_share_are_not_kept_and_it_is_told(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=ClusterSettings(data_per_user=10)) as c:
        [job] = c.submit(spec(keep={"first": "best", "second": "last"}, user="ann"))
        run(c, job, best=b"weights", last=b"others!")
        wait_for(lambda: kept(c, job), what="the end")
        made, refused = version(c, "first"), version(c, "second")
        assert (made is not None, refused) == (True, None)
        assert "job.not_kept" in c.events(job)


@pytest.mark.parametrize("keep", [{"a b": "x"}, {"m": "../x"}, {"m": "/etc/passwd"}, {"m": "a//b"}])
def test_what_can_not_be_kept_is_refused(keep: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"of a data set: use|below /outputs"):
        spec(keep=keep)


def test_later_jobs_read_the_outputs_of_earlier_ones(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        first, second, third = c.submit(spec("prepare"), spec("twin"), spec("twin"))
        later = c.submit(_after([first, second, third]))[0]
        for job in (first, second, third):
            run(c, job, done=job.encode())
        c.wait(later, "running")
        [task] = c.runtime.tasks()
        assert task.data == {
            "/inputs/prepare": outputs_key(first),
            f"/inputs/{second}": outputs_key(second),
            f"/inputs/{third}": outputs_key(third),
        }
        assert c.runtime.env(task.task_id)["SCHEDULEARN_INPUT_PREPARE"] == "/inputs/prepare"
        assert c.runtime.data.content(outputs_key(first), "done") == first.encode()
        assert "data.link" in {name for name, _ in c.runtime.calls}
        assert "data.load" not in {name for name, _ in c.runtime.calls}


def test_outputs_are_brought_from_another_host(tmp_path: Path) -> None:
    other = FakeRuntime("gpu2")
    with FakeCluster(tmp_path, gpus=1, others={"gpu2": other}) as c:
        [first] = c.submit(spec("prepare"))
        c.wait(first, "running")
        c.add("gpu2", gpus=2)
        [later] = c.submit(_after([first], required_gpus=2))
        run(c, first, model=b"weights")
        wait_for(lambda: other.tasks(), what="a start on gpu2")
        assert other.data.content(outputs_key(first), "model") == b"weights"
        c.wait(later, "running")


def test_a_job_that_wrote_nothing_or_never_ran_gives_an_empty_folder(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        blocker, first = c.submit(spec(), spec("never"))
        c.cluster.service.cancel(first)
        later = c.submit(JobSpec(**{**_after([first]).model_dump(), "after": {"jobs": [first], "when": "any"}}))[0]
        run(c, blocker)
        c.wait(later, "running")
        assert c.runtime.data.has(outputs_key(first))


def test_outputs_that_a_later_job_needs_are_not_swept(tmp_path: Path) -> None:
    settings = ClusterSettings(keep_outputs=0, output_room=1)
    with FakeCluster(tmp_path, gpus=1, settings=settings) as c:
        [first, blocker] = c.submit(spec("prepare"), spec())
        c.wait(first, "running")
        later = c.submit(_after([first]))[0]
        run(c, first, model=b"weights")
        c.wait(blocker, "running")
        c.cluster.outputs.sweep()
        c.cluster.housekeeping.tidy()
        assert c.runtime.outputs.content(first, "model") == b"weights"
        run(c, blocker)
        run(c, later)
        wait_for(lambda: not c.runtime.tasks(), what="the removal of all tasks")
        c.cluster.outputs.sweep()
        assert c.runtime.outputs.content(first, "model") is None


def test_outputs_that_are_gone_end_a_job_with_the_reason(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        [first] = c.submit(spec("prepare"))
        run(c, first, model=b"weights")
        wait_for(lambda: not c.runtime.tasks(), what="its removal")
        c.runtime.outputs.drop(first)
        [later] = c.submit(_after([first]))
        row = c.wait(later, "failed")
        assert (row.reason, "outputs of job" in row.message) == ("image_unavailable", True)


def _after(jobs: list[str], **fields: object) -> JobSpec:
    return spec("later", after={"jobs": jobs}, **fields)
