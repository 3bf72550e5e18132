"""Folders of the operator that named users may write, as themselves."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clusters import FakeCluster, spec, wait_for
from fakes.runtime import FakeRuntime

from schedulearn.scheduler.core.people import Role
from schedulearn.scheduler.core.task import RunAs, TaskSpec
from schedulearn.scheduler.errors import ForbiddenError, InvalidError, StartRefused
from schedulearn.scheduler.runtimes.docker.container import create_arguments
from schedulearn.scheduler.runtimes.docker.volumes import data_sets
from schedulearn.scheduler.runtimes.process.runtime import ProcessRuntime
from schedulearn.scheduler.settings import ClusterSettings
from schedulearn.scheduler.store.people import accounts
from schedulearn.scheduler.store.people.run_as import load_run_as, own_account

FOLDERS = {"wiki": "/srv/wiki", "home": "/home/ada"}
SETTINGS = ClusterSettings(data_sets=FOLDERS, writable_data_sets={"home": ["ada"]})
ADA = RunAs("ada", 1001, 1002, (200, 201))


def add_account(c: FakeCluster, ids: RunAs | None = ADA) -> None:
    c.cluster.db.write(lambda conn: accounts.add_account(conn, "ada", Role.USER, 0.0))
    set_ids(c, ids)


def set_ids(c: FakeCluster, ids: RunAs | None) -> None:
    c.cluster.db.write(lambda conn: accounts.set_ids(conn, "ada", ids, 0.0))


def test_a_folder_is_writable_for_whom_the_operator_names_and_refused_for_others(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=SETTINGS) as c:
        add_account(c)
        [job] = c.submit(spec(mounts=["wiki", "home"], user="ada"))
        c.wait(job, "running")
        [task] = c.runtime.tasks()
        assert list(task.writable) == ["/data/home"]
        assert task.run_as == ADA
        mounts = {mount["Target"]: mount["ReadOnly"] for mount in data_sets(task.mounts, task.writable)}
        assert mounts == {"/data/wiki": True, "/data/home": False}
        with pytest.raises(ForbiddenError, match="only jobs of ada may use home, which is writable"):
            c.submit(spec(mounts=["home"], user="ben"))


def test_a_job_that_only_reads_runs_as_its_image_says(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=SETTINGS) as c:
        add_account(c)
        [job] = c.submit(spec(mounts=["wiki"], user="ada"))
        c.wait(job, "running")
        assert c.runtime.tasks()[0].run_as is None


def test_who_has_no_uid_is_refused(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=SETTINGS) as c:
        for _ in range(2):  # an account without a uid is as none
            with pytest.raises(
                ForbiddenError,
                match=r"ada has no uid: ask an admin to set it \(schedulearn users ids "
                "ada",
            ):
                c.submit(spec(), spec(mounts=["home"], user="ada"))
            if not c.cluster.db.write(accounts.list_accounts):
                add_account(c, None)
        c.submit(spec(mounts=["wiki"], user="ada"))


@pytest.mark.parametrize("lost", ["the uid", "the account", "the right"])
def test_what_a_job_loses_while_it_waits_it_does_not_start_with(tmp_path: Path, lost: str) -> None:
    with FakeCluster(tmp_path, gpus=1, settings=SETTINGS) as c:
        add_account(c)
        first, second = c.submit(spec("first"), spec("second", mounts=["home"], user="ada"))
        c.wait(first, "running")
        match lost:
            case "the uid":
                set_ids(c, None)
            case "the account":
                c.cluster.db.write(lambda conn: accounts.remove_account(conn, "ada", 0.0))
            case "the right":
                SETTINGS.writable_data_sets["home"][:] = ["ben"]
        try:
            c.runtime.finish(c.task(first), 0)
            assert "may no longer write it" in c.wait(second, "failed").message
        finally:
            SETTINGS.writable_data_sets["home"][:] = ["ada"]


def test_a_uid_that_changes_counts_for_the_next_attempt(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, settings=SETTINGS) as c:
        add_account(c)
        [job] = c.submit(spec(mounts=["home"], user="ada", max_restarts=1))
        c.wait(job, "running")
        set_ids(c, RunAs("ada", 1003, 1003))
        c.runtime.finish(c.task(job), 1)

        def again() -> Any:
            return c.poke() and [task for task in c.runtime.tasks() if task.attempt == 2]

        assert wait_for(again, what="the next attempt")[0].run_as == RunAs("ada", 1003, 1003)


def test_the_account_of_the_service_has_its_own_uid_unless_that_is_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = own_account()
    settings = ClusterSettings(data_sets=FOLDERS, writable_data_sets={"home": [own]})
    with FakeCluster(tmp_path, settings=settings) as c, c.cluster.db.read() as conn:
        monkeypatch.setattr("schedulearn.scheduler.store.people.run_as.own_account", lambda: own)
        monkeypatch.setattr(os, "geteuid", lambda: 1234)
        monkeypatch.setattr(os, "getegid", lambda: 1235)
        assert load_run_as(conn, [own, "ada"]) == {own: RunAs(own, 1234, 1235)}
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        with pytest.raises(
            ForbiddenError, match=f"{own} runs this service as root, and jobs may not write there as root"
        ):
            c.submit(spec(mounts=["home"], user=own))
        monkeypatch.undo()


@pytest.mark.parametrize("numbers", [(0, 5), (5, 0), (5, 5, (0,)), (-1, 5), (5, 1 << 31)])
def test_root_is_nobody_as_whom_a_task_writes(numbers: Any) -> None:
    with pytest.raises(ValueError, match="a uid or gid is between 1 and"):
        RunAs("ada", *numbers)


def task(**fields: Any) -> TaskSpec:
    written = {"mounts": {"/data/home": "/home/ada"}, "writable": ["/data/home"], "run_as": ADA}
    return TaskSpec("job", 1, 0, "img", ("true",), (), **{**written, **fields})


def test_no_engine_starts_a_task_that_writes_as_nobody(tmp_path: Path) -> None:
    for runtime in (FakeRuntime("fake"), ProcessRuntime("here", tmp_path)):
        with pytest.raises(StartRefused, match="has no uid, or may no longer write it"):
            runtime.start(task(run_as=None))
        runtime.close()


def test_local_processes_run_as_the_service_and_so_as_nobody_else(tmp_path: Path) -> None:
    runtime = ProcessRuntime("here", tmp_path)
    with pytest.raises(StartRefused, match="local processes run as the service's account"):
        runtime.start(task(run_as=replace(ADA, uid=os.geteuid() + 1)))
    runtime.close()


def test_a_container_that_writes_has_the_account_and_no_capability() -> None:
    class Api:
        def create_host_config(self, **arguments: Any) -> dict[str, Any]:
            return arguments

    made = create_arguments(Api(), task(env={"HOME": "/data/home"}), "cluster", {})
    assert made["user"] == "1001:1002"
    assert made["host_config"]["group_add"] == ["200", "201"]
    assert (made["host_config"]["cap_drop"], made["host_config"]["cap_add"]) == (["ALL"], [])
    assert made["host_config"]["security_opt"] == ["no-new-privileges"]
    assert {name: made["environment"][name] for name in ("HOME", "USER")} == {"HOME": "/data/home", "USER": "ada"}
    assert "user" not in create_arguments(Api(), task(writable=(), run_as=None), "cluster", {})


def test_a_name_that_is_no_data_set_is_refused(tmp_path: Path) -> None:
    settings = ClusterSettings(writable_data_sets={"home": ["ada"]})
    with pytest.raises(InvalidError, match="not among data_sets"), FakeCluster(tmp_path, settings=settings):
        pass
