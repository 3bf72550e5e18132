"""Folders of the operator that named users may write."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import FakeCluster, spec

from schedulearn.scheduler.errors import ForbiddenError, InvalidError
from schedulearn.scheduler.runtimes.docker.volumes import data_sets
from schedulearn.scheduler.settings import ClusterSettings

FOLDERS = {"wiki": "/srv/wiki", "home": "/home/ada"}


def test_a_folder_is_writable_for_whom_the_operator_names_and_refused_for_others(tmp_path: Path) -> None:
    settings = ClusterSettings(data_sets=FOLDERS, writable_data_sets={"home": ["ada"]})
    with FakeCluster(tmp_path, settings=settings) as c:
        [job] = c.submit(spec(mounts=["wiki", "home"], user="ada"))
        c.wait(job, "running")
        [task] = c.runtime.tasks()
        assert list(task.writable) == ["/data/home"]
        mounts = {mount["Target"]: mount["ReadOnly"] for mount in data_sets(task.mounts, task.writable)}
        assert mounts == {"/data/wiki": True, "/data/home": False}
        with pytest.raises(ForbiddenError, match="home is for jobs of ada, which may write it"):
            c.submit(spec(mounts=["home"], user="ben"))


def test_a_name_that_is_no_data_set_is_refused(tmp_path: Path) -> None:
    settings = ClusterSettings(writable_data_sets={"home": ["ada"]})
    with pytest.raises(InvalidError, match="not among data_sets"), FakeCluster(tmp_path, settings=settings):
        pass
