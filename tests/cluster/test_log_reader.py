"""Metrics and progress that are read from logs, in a whole cluster over the fake runtime."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from clusters import FakeCluster, spec, wait_for
from matrices import each
from pydantic import ValidationError

from schedulearn.scheduler.reports import log_reader
from schedulearn.scheduler.reports.log_reader import LogReader
from schedulearn.scheduler.reports.store import ReportIn, metrics_from_log, metrics_of, progress_in_log, store_report
from schedulearn.scheduler.store.job_list import ShownProgress, progress_of


class Reader:
    """Cluster whose logs are read when a test says so. `renew` is a restart of the service, as the reader sees it."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.c = cluster
        self.secrets: Mapping[str, str] = {}
        self.told = 0
        self.now = time.time()
        self.c.cluster.log_reader.close()
        self.renew()

    def renew(self) -> None:
        self.reader = LogReader(
            self.c.cluster.db, self.c.cluster.logs, lambda job_id: self.secrets, self._tell, lambda: self.now
        )
        self.reader.find_tasks()

    def _tell(self) -> None:
        self.told += 1

    def run(self, **fields: Any) -> str:
        [job_id] = self.c.submit(spec(**fields))
        self.c.wait(job_id, "running")
        return job_id

    def write(self, job_id: str, text: str, attempt: int = 1) -> None:
        """Write as the job, at the reader's time."""
        writer = self.c.cluster.logs.writer(self.c.task(job_id, attempt))
        writer.append(text.encode(), self.now)
        writer.abandon()

    def end(self, job_id: str, code: int = 0) -> None:
        self.c.cluster.logs.writer(self.c.task(job_id)).close()
        self.c.runtime.finish(self.c.task(job_id), code)

    def look(self) -> None:
        """A check when all points are due."""
        self.now += log_reader.MAX_STORE_S
        self.reader.look()

    def curve(self, job_id: str, name: str = "loss") -> list[tuple[float, float]]:
        with self.c.cluster.db.read() as db:
            return [(step, value) for step, value, _ in metrics_of(db, job_id).get(name, [])]

    def progress(self, job_id: str) -> ShownProgress | None:
        with self.c.cluster.db.read() as db:
            return progress_of(db, [job_id]).get(job_id)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Reader]:
    with FakeCluster(tmp_path) as cluster:
        yield Reader(cluster)


def test_a_running_job_shows_its_curve_and_progress(logs: Reader) -> None:
    job_id = logs.run(gpus=1)
    logs.write(job_id, "epoch 1/4 loss 0.9\nepoch 2/4 loss 0.5\nepoch 3/4 lo")
    logs.look()
    assert (logs.curve(job_id), logs.progress(job_id)) == ([(1, 0.9), (2, 0.5)], ShownProgress(0.5, True))
    assert logs.told == 0, "one place tells no speed"
    logs.write(job_id, "ss 0.25\n")
    logs.look()
    assert logs.curve(job_id) == [(1, 0.9), (2, 0.5), (3, 0.25)]
    assert logs.told == 1, "the forecast is renewed"


def test_the_end_of_a_log_is_read_after_the_job_has_ended(logs: Reader) -> None:
    job_id = logs.run(gpus=1)
    logs.write(job_id, "epoch 1/2 loss 0.9\nepoch 2/2 loss 0.5")
    logs.end(job_id)
    logs.c.wait(job_id, "succeeded")
    logs.look()
    logs.look()
    assert (logs.curve(job_id), logs.progress(job_id)) == ([(1, 0.9), (2, 0.5)], ShownProgress(1.0, True))
    assert not logs.reader._tracked


def test_a_restart_of_the_service_continues_in_the_middle(logs: Reader) -> None:
    job_id = logs.run(gpus=1)
    logs.write(job_id, "Epoch 1/4\n1/2 ━━ loss: 0.9\n2/2 ━━ loss: 0.8\n")
    logs.look()
    logs.write(job_id, "Epoch 2/4\n1/2 ━━ loss: 0.7\n")
    logs.reader.look()  # read, and not due
    logs.renew()
    logs.write(job_id, "2/2 ━━ loss: 0.6\n")
    logs.look()
    assert logs.curve(job_id) == [(1, 0.9), (2, 0.8), (3, 0.7), (4, 0.6)]
    assert logs.progress(job_id) == ShownProgress(0.5, True)


def test_a_log_whose_end_came_just_before_a_restart_is_read_to_its_end(logs: Reader) -> None:
    job_id = logs.run(gpus=1)
    logs.write(job_id, "epoch 1/2 loss 0.9\n")
    logs.look()
    logs.write(job_id, "epoch 2/2 loss 0.5\n")
    logs.end(job_id)
    logs.c.wait(job_id, "succeeded")
    logs.renew()
    logs.look()
    logs.look()
    assert logs.curve(job_id) == [(1, 0.9), (2, 0.5)]
    logs.renew()
    assert not logs.reader._tracked, "a log that was read is not read again"


def test_the_next_attempt_begins_its_curve_again(logs: Reader) -> None:
    job_id = logs.run(gpus=1, max_restarts=1)
    logs.write(job_id, "epoch 1/4 loss 0.9\nepoch 2/4 loss 0.5\n")
    logs.look()
    logs.end(job_id, 1)
    wait_for(
        lambda: logs.c.poke() and logs.c.job(job_id).attempt == 2 and logs.c.state(job_id) == "running",
        pause=0.2,
        what="the next attempt",
    )
    assert logs.progress(job_id) is None
    logs.write(job_id, "epoch 1/4 loss 0.8\n", attempt=2)
    logs.look()
    assert (logs.curve(job_id), logs.progress(job_id)) == ([(1, 0.8)], ShownProgress(0.25, True))


def test_reports_of_the_sdk_take_precedence(logs: Reader) -> None:
    job_id = logs.run(gpus=1)
    logs.write(job_id, "epoch 1/4 loss 0.9 acc 0.1\n")
    logs.look()
    batch = {"init": 64, "max": 64, "atomic": 64, "accumulation": 0}
    said = {"epoch": 3, "epochs": 4}
    metrics = [{"name": "loss", "step": 7, "value": 0.3, "at": 1.8e9}]
    given = ReportIn.model_validate({"attempt": 1, "batch": batch, "progress": said, "metrics": metrics})
    logs.c.cluster.db.write(lambda db: store_report(db, job_id, given, time.time()))
    logs.write(job_id, "epoch 2/4 loss 0.8 acc 0.2\n")
    logs.look()
    assert (logs.curve(job_id), logs.curve(job_id, "acc")) == ([(7, 0.3)], [(1, 0.1), (2, 0.2)])
    assert logs.progress(job_id) == ShownProgress(0.75, False)
    with logs.c.cluster.db.read() as db:
        assert metrics_from_log(db, job_id) == ["acc"]


def test_a_job_may_turn_it_off_or_name_its_metrics(logs: Reader) -> None:
    off, named = logs.run(gpus=1, log_metrics=False), logs.run(gpus=1, log_metrics=["Score@1", "noise_scale"])
    for job_id in (off, named):
        logs.write(job_id, "epoch 1/4 loss 0.9 score@1: 7 noise_scale: 5\n")
    logs.look()
    with logs.c.cluster.db.read() as db:
        assert (metrics_of(db, off), progress_in_log(db, off)) == ({}, None)
        assert list(metrics_of(db, named)) == ["score_1"], "noise_scale is the SDK's: speeds are learned from it"


def test_secret_values_are_masked_before_they_are_read(logs: Reader) -> None:
    logs.secrets = {"PIN": "12345678"}
    job_id = logs.run(gpus=1, log_metrics=["pin", "loss"])
    logs.write(job_id, "pin: 12345678 loss: 0.5\n")
    logs.look()
    assert (logs.curve(job_id, "pin"), logs.curve(job_id)) == ([], [(1, 0.5)])


def test_a_log_that_grows_fast_is_read_in_bounded_parts(logs: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "MAX_BACKLOG", 64 << 10)
    job_id = logs.run(gpus=1)
    logs.write(job_id, "".join(f"step {step}/20000 loss 0.5\n" for step in range(1, 20_001)))
    for _ in range(20):
        logs.look()
    assert len(logs.curve(job_id)) <= 240
    assert logs.progress(job_id) == ShownProgress(1.0, True)


def test_an_endless_line_is_passed_over(logs: Reader) -> None:
    job_id = logs.run(gpus=1)
    logs.write(job_id, "x" * (3 * log_reader.PART))
    for _ in range(4):
        logs.look()
    logs.write(job_id, "\nepoch 1/2 loss 0.5\n")
    logs.look()
    assert logs.curve(job_id) == [(1, 0.5)]


def test_a_deleted_job_leaves_nothing(logs: Reader) -> None:
    job_id = logs.run(gpus=1)
    logs.write(job_id, "epoch 1/2 loss 0.5\n")
    logs.end(job_id)
    logs.c.wait(job_id, "succeeded")
    logs.c.cluster.service.delete(job_id, shown=lambda _: False)
    for _ in range(20):
        logs.look()
    assert (logs.curve(job_id), logs.progress(job_id), dict(logs.reader._tracked)) == ([], None, {})


@each(["yes", [], [""], ["a"] * 21, [1], None, {"a": 1}, ["x" * 65], ["a\0"], 1], "value")
def test_a_wrong_value_of_the_key_gets_one_sentence(value: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        spec(log_metrics=value)
    [error] = refused.value.errors()
    assert error["loc"] == ("log_metrics",)
    assert "true, false, or a list" in error["msg"] or "is not the name of a metric" in error["msg"]
