"""Real environments and images that are yet to be made, with a whole service: others use the GPUs meanwhile."""

from __future__ import annotations

import io
import sys
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from benches import IMAGE, tools_image
from clusters import FakeCluster, spec, wait_for
from registry import Registry

from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.images import DockerImages
from schedulearn.scheduler.runtimes.docker.runtime import DockerRuntime
from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of


class Cluster(FakeCluster):
    """Over a real runtime."""

    def __exit__(self, *_: object) -> None:
        with self.cluster.db.read() as db:
            live = [row.id for row in repository.list_jobs(db) if row.finished_at is None]
        for job in live:
            self.cluster.service.cancel(job)
        wait_for(lambda: all(self.job(job).finished_at for job in live), seconds=30, what="the end of all jobs")
        wait_for(lambda: not self.cluster.agents["local"].runtime.observe(), seconds=30, what="nothing to be left")
        self.cluster.close()

    def log(self, job_id: str) -> str:
        return b"".join(self.cluster.agents["local"].runtime.logs(self.task(job_id), follow=False)).decode()


def own_layer() -> bytes:
    """A file system that no engine has yet."""
    layer = io.BytesIO(tools_image())
    with tarfile.open(fileobj=layer, mode="a") as archive:
        archive.addfile(tarfile.TarInfo(uuid.uuid4().hex))
    return layer.getvalue()


@contextmanager
def local(directory: Path) -> Iterator[Cluster]:
    runtime = ProcessRuntime("local", directory)
    with Cluster(directory, gpus=1, runtime=runtime) as cluster:  # type: ignore[arg-type]
        yield cluster


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Building an environment lasts until the file `go` appears beside it."""
    script = tmp_path / "build-env.sh"
    script.write_text(
        f"""
        cd '{tmp_path}'; mkdir -p built/bin
        until [ -e go ]; do echo 'progress 30 compiling'; sleep 0.05; done
        printf '#!/bin/sh\\nshift 4; exec "$@"\\n' >built/bin/horovodrun; chmod +x built/bin/horovodrun
        echo 'ready {tmp_path}/built'
        """
    )
    monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_path", lambda name: script)
    monkeypatch.setattr("schedulearn.scheduler.runtimes.process.environments.recipe_digest", lambda: "one")
    return script


def test_other_jobs_have_the_gpu_while_an_environment_is_built(tmp_path: Path, recipe: Path) -> None:
    with local(tmp_path / "data") as c:
        [waits] = c.submit(spec(container_image="schedulearn/horovod-cpu", launcher="horovod", command="echo trained"))
        wait_for(lambda: c.job(waits).pull_percent == 30)
        assert c.leases() == []
        [other] = c.submit(spec(command="echo passed"))
        c.wait(other, "succeeded")
        assert c.state(waits) == "pulling"
        recipe.with_name("go").touch()
        c.wait(waits, "succeeded")
        assert c.log(waits) == "trained\n"


def test_the_build_ends_with_the_last_job_that_needs_it(tmp_path: Path, recipe: Path) -> None:
    with local(tmp_path / "data") as c:
        [job] = c.submit(spec(launcher="horovod"))
        c.wait(job, "pulling")
        wait_for(lambda: c.cluster.agents["local"].fetches())
        c.cluster.service.cancel(job)
        wait_for(lambda: not c.cluster.agents["local"].fetches(), what="the end of the build")


def test_a_job_without_a_launcher_runs_in_the_services_own_environment_and_is_told_so(
    tmp_path: Path, recipe: Path
) -> None:
    with local(tmp_path / "data") as c:
        [job] = c.submit(spec(container_image="pytorch/pytorch:2", command="python -c 'import sys; print(sys.prefix)'"))
        c.wait(job, "succeeded")
        assert c.log(job).strip() == sys.prefix
        with c.cluster.db.read() as db:
            said = [event.message for event in repository.list_events(db, job_id=job) if event.code == "placed"]
        assert "since local processes have none for pytorch/pytorch:2." in said[0]
        [ours] = c.submit(spec(container_image="schedulearn/horovod-cpu"))
        c.wait(ours, "pulling")
        recipe.with_name("go").touch()
        c.wait(ours, "succeeded")


@pytest.mark.docker
def test_other_jobs_have_the_gpu_while_an_engine_pulls_an_image(tmp_path: Path, engine_url: str) -> None:
    engine = Engine(engine_url)
    with Registry(f"schedulearn-test/pulled-{uuid.uuid4().hex[:8]}", held=True) as registry:
        registry.put("1", own_layer())
        image = registry.image("1")
        runtime = DockerRuntime("local", engine_url, tmp_path / "data", uuid.uuid4().hex)
        try:
            with Cluster(tmp_path / "data", gpus=1, runtime=runtime) as c:  # type: ignore[arg-type]
                [waits] = c.submit(spec(container_image=image, command="sh -c 'cat < /dev/null; echo hi'"))
                assert registry.wanted.wait(30)
                [other] = c.submit(spec(container_image=IMAGE))
                ended = c.wait(other, "succeeded")
                assert (c.state(waits), c.leases(), c.job(waits).fetch_hosts) == ("pulling", [], ["local"])
                registry.release()
                wait_for(lambda: c.state(waits) == "succeeded", seconds=30)
                with c.cluster.db.read() as db:
                    [task] = tasks_of(db, [waits])
                assert task.created_at >= ended.finished_at
                [missing] = c.submit(spec(container_image=f"{image}-not"))
                assert c.wait(missing, "failed").reason == "image_unavailable"
        finally:
            if DockerImages(engine).has(image):
                engine.api.remove_image(image)
            engine.close()


@pytest.mark.docker
def test_a_pull_that_nobody_needs_any_more_ends(tmp_path: Path, engine_url: str) -> None:
    with Registry(f"schedulearn-test/left-{uuid.uuid4().hex[:8]}", held=True) as registry:
        registry.put("1", own_layer())
        image = registry.image("1")
        runtime = DockerRuntime("local", engine_url, tmp_path / "data", uuid.uuid4().hex)
        with Cluster(tmp_path / "data", gpus=1, runtime=runtime) as c:  # type: ignore[arg-type]
            [job] = c.submit(spec(container_image=image))
            assert registry.wanted.wait(30)
            c.cluster.service.cancel(job)
            assert c.state(job) == "cancelled"
            wait_for(lambda: not c.cluster.agents["local"].fetches(), seconds=30, what="the end of the pull")
            assert not runtime.images.has(image)
