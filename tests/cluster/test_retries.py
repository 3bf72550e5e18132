"""A command that fails is tried again later each time, and its logs are bounded over all tries."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from builders import job_record
from clusters import FakeCluster, spec, wait_for
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update
from sqlmodel import col

from schedulearn.scheduler.control.job_logs import JobLogs, surplus_attempts
from schedulearn.scheduler.core.outcomes.retries import FIRST_S, MAX_S, delay, next_tries, why_resting
from schedulearn.scheduler.runtimes.log_store import LogStore
from schedulearn.scheduler.store import repository
from schedulearn.scheduler.store.cluster_state import tasks_of
from schedulearn.scheduler.store.models import Job


def test_each_wait_is_twice_the_one_before_up_to_a_bound() -> None:
    assert [delay(tries, 1.0) for tries in range(10)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert delay(1000, 1.0) == MAX_S
    assert delay(1000, MAX_S + 1) == FIRST_S, "it ran for long: nothing is wrong with it"


def test_only_a_job_in_the_queue_rests_and_says_for_how_long() -> None:
    failed = {"reason": "retry", "message": "Exit code 3."}
    waits = job_record("a", "queued", not_before=120.0, **failed)
    jobs = {
        "a": waits,
        "b": job_record("b", "queued", not_before=99.0, **failed),
        "c": job_record("c", not_before=120.0),
    }
    assert next_tries(jobs, 100.0) == {"a": 120.0}
    why = why_resting(waits, 100.5)
    assert why is not None
    assert (why.code, str(why)) == ("retry", "Exit code 3. It tries again in 20 s.")
    assert why_resting(waits, 120.0) is None
    assert next_tries(jobs, 120.0) == {}


def set_retries(c: FakeCluster, job: str, retries: int) -> None:
    c.cluster.db.write(lambda db: db.execute(update(Job).where(col(Job.id) == job).values(retries=retries)))


def starts(c: FakeCluster, job: str) -> list[tuple[float, float | None]]:
    """When each attempt was made, and ended."""
    with c.cluster.db.read() as db:
        return [(task.created_at, task.finished_at) for task in tasks_of(db, [job])]


def pause_after(c: FakeCluster, job: str, attempt: int) -> tuple[float, float] | None:
    """When an attempt ended, and until when the job waits for that."""
    ended, not_before = starts(c, job)[attempt - 1][1], c.job(job).not_before
    return (ended, not_before) if ended is not None and not_before is not None and not_before > ended else None


def not_told_to_wait(c: FakeCluster, job: str, since: float, until: float) -> bool:
    """Later it may wait for others."""
    with c.cluster.db.read() as db:
        told = [event.at for event in repository.list_events(db, job_id=job) if event.kind == "job.waiting"]
    return not any(since <= at < until for at in told)


@pytest.mark.slow
def test_tries_are_apart_and_others_have_the_gpu_meanwhile_and_the_loop_wakes_by_itself(tmp_path: Path) -> None:
    with FakeCluster(tmp_path, gpus=1) as c:
        [job] = c.submit(spec(max_restarts=2))
        for attempt in (1, 2, 3):
            wait_for(lambda: c.job(job).attempt == attempt and c.state(job) == "running")  # noqa: B023
            if attempt == 3:
                break
            if attempt == 1:
                [other] = c.submit(spec())
            c.runtime.finish(c.task(job, attempt), 3)
            # Not by our clock, and not by its state now: a busy machine looks when it runs again.
            ended, not_before = wait_for(lambda: pause_after(c, job, attempt))  # noqa: B023
            assert not_before >= ended + attempt
            assert not_told_to_wait(c, job, ended, not_before)
            if attempt == 1:
                c.wait(other, "running")
                assert c.state(job) == "queued"
                c.runtime.finish(c.task(other))
        (_, first), (again, second), (last, _) = starts(c, job)
        assert first is not None
        assert second is not None
        assert again - first >= 1
        assert last - second >= 2
        c.runtime.finish(c.task(job, 3))
        c.wait(job, "succeeded")


def test_a_service_that_restarts_does_not_try_sooner(tmp_path: Path) -> None:
    with FakeCluster(tmp_path) as c:
        [job] = c.submit(spec(max_restarts=9))
        c.wait(job, "running")
        set_retries(c, job, 5)
        c.runtime.finish(c.task(job), 3)
        before = c.wait(job, "queued").not_before
        assert before > time.time() + 20
    with FakeCluster(tmp_path) as c:
        wait_for(lambda: c.cluster.loop.stats.decisions >= 2 and c.poke())
        assert c.job(job).not_before == before
        assert c.state(job) == "queued"
        c.cluster.service.cancel(job)
        assert c.state(job) == "cancelled"


@given(
    sizes=st.dictionaries(st.integers(1, 40), st.integers(1, 100), max_size=12),
    attempts=st.integers(0, 12),
    room=st.integers(0, 600),
)
def test_the_first_and_the_last_log_stay_and_no_more_goes_than_must(
    sizes: dict[int, int], attempts: int, room: int
) -> None:
    gone = surplus_attempts(sizes, attempts, room)
    left = {attempt: size for attempt, size in sizes.items() if attempt not in gone}
    assert not sizes or {min(sizes), max(sizes)} <= left.keys()
    assert gone == sorted(sizes)[1 : 1 + len(gone)], "the oldest ones go"

    def fits(kept: dict[int, int]) -> bool:
        return (not attempts or len(kept) <= attempts) and (not room or sum(kept.values()) <= room)

    assert fits(left) or len(left) <= 2
    assert not gone or not fits({**left, gone[-1]: sizes[gone[-1]]})


@pytest.mark.slow
def test_logs_of_a_job_that_fails_on_and_on_are_bounded_and_keep_their_offsets(tmp_path: Path) -> None:
    logs = LogStore(tmp_path / "logs")
    with FakeCluster(tmp_path) as c:
        job_logs = JobLogs(c.cluster.db, logs, max_attempts=3, max_bytes=0)
        c.cluster.loop._on_attempt_end = lambda job_id, attempt: job_logs.prune(job_id)
        [job] = c.submit(spec(max_restarts=4))
        for attempt in range(1, 6):
            wait_for(lambda: c.job(job).attempt == attempt and c.state(job) == "running", seconds=20)  # noqa: B023
            writer = logs.writer(c.task(job, attempt))
            writer.append(b"attempt %d\n" % attempt)
            writer.close()
            if attempt > 2:
                set_retries(c, job, 0 if attempt < 5 else 4)
            c.runtime.finish(c.task(job, attempt), 3)
        c.wait(job, "failed")
        tasks = [c.task(job, attempt) for attempt in range(1, 6)]
        kept = [b"attempt 1\n", b"", b"", b"attempt 4\n", b"attempt 5\n"]
        wait_for(lambda: [logs.read(task)[1] for task in tasks] == kept, seconds=20)  # told of an end after it
        assert [logs.size(c.task(job, attempt)) for attempt in range(1, 6)] == [10] * 5
        wait_for(lambda: all(logs.ended(task) for task in tasks), what="the marks of their ends")
