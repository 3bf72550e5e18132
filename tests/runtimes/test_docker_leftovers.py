"""What uninstall finds on an engine, and removes: ours, all of it, and nothing of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from benches import docker_bench, shell, wait_for

from schedulearn.scheduler.runtimes.docker.api import Engine
from schedulearn.scheduler.runtimes.docker.container import LABEL
from schedulearn.scheduler.runtimes.docker.leftovers import find_leftovers, our_names, remove_leftovers
from schedulearn.scheduler.runtimes.docker.volumes import CHECKPOINTS, OUTPUTS

pytestmark = pytest.mark.docker


def test_all_of_one_service_goes_and_nothing_of_another(tmp_path: Path, engine_url: str) -> None:
    mine, theirs = docker_bench(tmp_path / "mine", engine_url), docker_bench(tmp_path / "theirs", engine_url)
    engine = Engine(engine_url)
    try:
        running, ended, other = (bench.spec(shell(script)) for bench, script in (
            (mine, "sleep 1000"), (mine, "true"), (theirs, "sleep 1000")))  # fmt: skip
        for bench, spec in ((mine, running), (mine, ended), (theirs, other)):
            bench.runtime.start(spec)
        mine.wait_for_end(ended.task_id)
        cluster, their_cluster = (
            engine.api.inspect_container(spec.task_id)["Config"]["Labels"][LABEL] for spec in (running, other)
        )
        found = find_leftovers(engine, cluster)
        assert sorted(found.containers) == sorted([running.task_id, ended.task_id])
        assert found.running == 1
        assert sorted(found.volumes) == sorted(
            kind.volume(spec.job_id) for spec in (running, ended) for kind in (CHECKPOINTS, OUTPUTS)
        )
        assert their_cluster in found.shared_with
        assert found.images == [], "another service uses them"
        assert other.task_id in find_leftovers(engine, None).containers, "everybody's"

        assert remove_leftovers(engine, found) == []
        assert not find_leftovers(engine, cluster)
        assert remove_leftovers(engine, found) == [], "again: nothing happens"
        left = find_leftovers(engine, their_cluster, images=False)
        assert (left.containers, left.running) == ([other.task_id], 1)
        wait_for(lambda: theirs.see(other.task_id), "the other's task")
    finally:
        for bench in (mine, theirs):
            bench.close()
        engine.close()


def test_what_cannot_be_removed_is_told(tmp_path: Path, engine_url: str) -> None:
    bench, engine = docker_bench(tmp_path, engine_url), Engine(engine_url)
    try:
        spec = bench.spec(shell("sleep 1000"))
        bench.runtime.start(spec)
        cluster = engine.api.inspect_container(spec.task_id)["Config"]["Labels"][LABEL]
        found = find_leftovers(engine, cluster)
        only_volume = type(found)(volumes=found.volumes)
        problems = remove_leftovers(engine, only_volume)
        assert sorted(problem.partition(":")[0] for problem in problems) == sorted(found.volumes)
        assert all("in use" in problem for problem in problems)
    finally:
        bench.close()
        engine.close()


def test_images_of_ours_are_told_by_their_names() -> None:
    ours = {"RepoTags": ["schedulearn/horovod-cpu:latest", "my/copy:1"], "Labels": {"schedulearn.base": "debootstrap"}}
    assert list(our_names(ours)) == ["schedulearn/horovod-cpu:latest"]
    assert list(our_names({"RepoTags": ["schedulearn/server:latest"]})) == [], "it may be what runs uninstall"
    assert list(our_names({"RepoTags": None, "Labels": None})) == []
    assert list(our_names({"RepoTags": ["python:3.11-slim"]})) == [], "pulled, and nobody's in particular"
    stand_in = {"RepoTags": ["python:3.11-slim"], "Labels": {"schedulearn.base": "debootstrap"}}
    assert list(our_names(stand_in)) == ["python:3.11-slim"]
