"""Jobs of the worker SDK that do not report: which these are, and what is told of them, once."""

import time
from pathlib import Path

from clusters import FakeCluster, spec

from schedulearn.scheduler.reports.silence import RunningJob, SilenceWatch, silent_jobs
from schedulearn.scheduler.reports.store import ReportIn, store_report
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of

URL = "http://172.17.0.1:8000"
REPORT = ReportIn.model_validate({"attempt": 1, "batch": {"init": 64, "max": 64, "atomic": 64, "accumulation": 0}})


def test_only_jobs_that_should_report_can_be_silent() -> None:
    jobs = [
        RunningJob("never, elastic", True, 100.0, None),
        RunningJob("never, rigid", False, 100.0, None),
        RunningJob("long ago, elastic", True, 100.0, 110.0),
        RunningJob("long ago, rigid", False, 100.0, 110.0),
        RunningJob("lately", True, 100.0, 500.0),
        RunningJob("just started anew", True, 500.0, 110.0),
        RunningJob("just seen to go on after a pause", True, 100.0, 110.0),
    ]
    seen = {job.id: 100.0 for job in jobs} | {"just seen to go on after a pause": 550.0}
    found = silent_jobs(jobs, seen, 600.0, 180.0, URL)
    assert found == {
        "never, elastic": "No report for 8 min, so its speed is unknown: its script does not use "
        "schedulearn.worker, or its workers can't reach http://172.17.0.1:8000.",
        "long ago, elastic": "Its workers have not reported for 8 min: they can no longer reach "
        "http://172.17.0.1:8000, or hang. Until they report, its size follows from earlier reports.",
        "long ago, rigid": "Its workers have not reported for 8 min: they can no longer reach "
        "http://172.17.0.1:8000, or hang.",
    }
    assert silent_jobs(jobs, seen, 279.0, 180.0, URL) == {}, "none was quiet for long enough"


def test_a_service_that_workers_cannot_reach_at_all_says_so() -> None:
    job = RunningJob("a", True, 100.0, None)
    [why] = silent_jobs([job], {"a": 100.0}, 600.0, 180.0, None).values()
    assert why == "Its workers can't report: the service does not know its own address for them. Set report_url."


def events(c: FakeCluster, job_id: str) -> list[tuple[str, str]]:
    with c.cluster.db.read() as db:
        found = repository.list_events(db, job_id=job_id)
    return [(e.kind, e.code) for e in found if e.kind in ("job.silent", "job.heard")]


def test_an_event_tells_of_a_silence_once_and_once_when_it_ends_also_over_a_restart(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=4) as c:
        elastic, rigid = c.submit(spec(elastic=True, max_gpus=2), spec())
        for job in (elastic, rigid):
            c.wait(job, "running")
        c.cluster.loop.close()

        def report(at: float) -> None:
            c.cluster.db.write(lambda db: store_report(db, elastic, REPORT, at))

        start = time.time()
        watch = SilenceWatch(c.cluster.db, URL, 30.0, 180.0)
        for at in (0, 100, 179):
            watch.look(start + at)
        assert (watch.silent, events(c, elastic)) == ({}, [])
        for at in (200, 210):
            watch.look(start + at)
        assert watch.silent.keys() == {elastic}
        assert events(c, elastic) == [("job.silent", "no_reports")]

        watch = SilenceWatch(c.cluster.db, URL, 30.0, 180.0)  # a new service
        watch.look(start + 220)
        assert watch.silent == {}, "it was not there to hear anything"
        watch.look(start + 410)
        assert watch.silent.keys() == {elastic}
        assert events(c, elastic) == [("job.silent", "no_reports")]

        report(start + 415)
        watch.look(start + 420)
        assert watch.silent == {}
        assert events(c, elastic)[1:] == [("job.heard", "")]
        watch.look(start + 600)
        assert watch.silent.keys() == {elastic}, "silent again"
        assert events(c, elastic)[2:] == [("job.silent", "no_reports")]
        assert events(c, rigid) == []


def test_missed_reports_count_by_their_interval_where_that_is_long(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(elastic=True, max_gpus=2))
        c.wait(job, "running")
        c.cluster.loop.close()
        start, watch = time.time(), SilenceWatch(c.cluster.db, URL, 600.0, 180.0)
        for at, silent in ((0, False), (2390, False), (2410, True)):
            watch.look(start + at)
            assert bool(watch.silent) == silent


def test_a_pause_is_no_silence(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(elastic=True, max_gpus=2))
        c.wait(job, "running")
        c.cluster.loop.close()
        start, watch = time.time(), SilenceWatch(c.cluster.db, URL, 30.0, 180.0)
        with c.cluster.db.read() as db:
            [task] = tasks_of(db, [job], live=True)
        watch.look(start)
        c.cluster.db.write(lambda db: repository.mark_paused(db, task, start + 10))
        watch.look(start + 300)
        with c.cluster.db.read() as db:
            [task] = tasks_of(db, [job], live=True)
        c.cluster.db.write(lambda db: repository.mark_resumed(db, task, start + 310))
        watch.look(start + 320)
        watch.look(start + 490)
        assert (watch.silent, events(c, job)) == ({}, [])
        watch.look(start + 501)
        assert watch.silent.keys() == {job}
