"""Code that nobody needs makes room; that of jobs and sweeps which are not over stays."""

from __future__ import annotations

import io
import os
from pathlib import Path

from clusters import FakeCluster, SlowFetch, spec
from fakes.runtime import FakeRuntime

from schedulearn.features.sweeps.spec import SweepSpec
from schedulearn.features.sweeps.worker import SweepWorker
from schedulearn.scheduler.code.archive import Entry, Kind
from schedulearn.scheduler.core.job_image import layer_of, layered
from schedulearn.scheduler.settings import ClusterSettings


def test_the_code_of_what_is_not_over_stays_and_other_goes(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1, settings=ClusterSettings(code_room=1)) as c:
        store = c.cluster.code

        def keep(content: bytes) -> str:
            entry = Entry("train.py", Kind.FILE, len(content), open=lambda: io.BytesIO(content))
            return store.keep(lambda: [entry]).digest

        running, ended, swept, unused, fresh = (keep(bytes([n])) for n in range(5))
        job, over = c.submit(spec(code=running), spec(code=ended, gpus=1))
        c.wait(job, "running")
        c.cluster.service.cancel(over)
        image = {"type": "t", "container_image": "img", "required_gpus": 1, "launcher": "none"}
        body = {"name": "lr", "job": {**image, "command": "train {lr}", "code": swept}, "grid": {"lr": [1, 2]}}
        c.cluster.worker(SweepWorker).use_cases.start(SweepSpec.model_validate({**body, "max_parallel": 1}))
        for digest in (running, ended, swept, unused):
            os.utime(store.path(digest), (1000.0, 1000.0))
        c.cluster.housekeeping.tidy()
        assert {digest for digest in (running, ended, swept, unused, fresh) if store.find(digest)} == {
            running, swept, fresh,
        }  # fmt: skip


def test_a_layer_is_made_once_for_all_jobs_that_need_the_same(tmp_path: Path) -> None:
    layer = layered("img", layer_of(["a"]))
    slow = SlowFetch()
    runtime = FakeRuntime("local", images={"img"}, fetchable={layer: slow})
    with FakeCluster(tmp_path, runtime=runtime) as c:
        first, second = c.submit(spec(requirements=["a"]), spec(requirements=["a", "  # and no more"]))
        plain = c.submit(spec())[0]
        c.wait(first, "pulling")
        c.wait(second, "pulling")
        c.wait(plain, "running")
        slow.end()
        c.wait(first, "running")
        c.wait(second, "running")
        assert runtime.images.layers == {layer: ("a",)}
        assert {task.job_id: task.image for task in runtime.tasks()} == {first: layer, second: layer, plain: "img"}
