from collections.abc import Set

import pytest
from builders import job_record, observed, task_record
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.cluster_state import Job, Task, run_seconds
from schedulearn.scheduler.core.gang import MEET_S
from schedulearn.scheduler.core.outcomes.cluster_outcomes import outcomes_of
from schedulearn.scheduler.core.outcomes.conclusions import KILLED, MAX_LOSSES, PREEMPTED
from schedulearn.scheduler.core.outcomes.findings import (
    Finding,
    JobMoved,
    TaskEnded,
    TaskPaused,
    TaskResumed,
    TaskStarted,
)
from schedulearn.scheduler.core.outcomes.observations import Observation, Outage, Refusal, through_outages
from schedulearn.scheduler.core.outcomes.task_outcomes import OUT_OF_MEMORY, Evidence, MemorySeen
from schedulearn.scheduler.core.states import Reason
from schedulearn.scheduler.core.task import EngineState, ObservedTask

NOW = 1000.0


def look(
    job: Job,
    tasks: list[Task],
    seen: list[ObservedTask] | None,
    *,
    refusals: dict[str, Refusal] | None = None,
    ended: list[Task] | None = None,
    maybe_starting: frozenset[str] = frozenset(),
    settled_at: float = 0.0,
    service_started: float = 0.0,
    told_to_pause: Set[str] = frozenset(),
) -> list[Finding]:
    """The host was asked at 1 s of the monotonic clock; all tasks were there when the service started."""
    observations = {} if seen is None else {"h1": Observation(seen, NOW, maybe_starting, asked_at=1.0)}
    inherited = {task.id for task in tasks}
    evidence = Evidence(
        NOW, service_started, observations, refusals or {}, inherited=inherited, settled_at=settled_at,
        told_to_pause=told_to_pause,
    )  # fmt: skip
    return list(outcomes_of({job.id: job}, tasks, {job.id: ended or []}, evidence).findings)


def reasons(findings: list[Finding]) -> list[Reason]:
    return [f.reason for f in findings if isinstance(f, JobMoved)]


def test_a_running_container_makes_its_job_run() -> None:
    task = task_record(state="wanted", started_at=None)
    findings = look(job_record(state="starting"), [task], [observed(task.id, started_at=990.0)])
    assert findings[0] == TaskStarted(task, 990.0)
    assert reasons(findings) == [Reason.CONTAINER_RUNNING]


@given(
    wait_s=st.floats(0, 100), run_s=st.floats(0, 100), late_s=st.floats(0, 100), ahead_s=st.floats(-50, 50),
    seen_running=st.booleans(),
)  # fmt: skip
def test_a_job_has_the_times_of_its_task_whatever_its_hosts_clock(
    wait_s: float, run_s: float, late_s: float, ahead_s: float, seen_running: bool
) -> None:
    """Seen while it runs, or only when it has ended; noticed late."""
    submitted = NOW - late_s - run_s - wait_s
    started, finished = (submitted + wait_s + ahead_s, submitted + wait_s + run_s + ahead_s)
    job = job_record(state="starting", submitted_at=submitted, started_at=None)
    task = task_record(state="wanted", started_at=None, created_at=submitted)
    if seen_running:
        found, moved = look(job, [task], [observed(task.id, started_at=started)])
        assert isinstance(found, TaskStarted)
        assert isinstance(moved, JobMoved)
        job = job_record(state="running", submitted_at=submitted, started_at=moved.changes["started_at"])
        task = task_record(started_at=found.started_at, created_at=submitted)
    seen = observed(task.id, "exited", exit_code=0, started_at=started, finished_at=finished)
    of_task, moved = look(job, [task], [seen])
    assert isinstance(of_task, TaskEnded)
    assert isinstance(moved, JobMoved)
    began, ended = moved.changes["started_at"], moved.changes["finished_at"]
    assert submitted <= began <= ended <= NOW
    assert of_task.started_at is not None
    assert of_task.finished_at is not None
    assert (began - submitted) + (of_task.finished_at - of_task.started_at) <= ended - submitted + 1e-6
    if ahead_s == 0:
        assert (began, ended) == pytest.approx((started, finished))


def test_pauses_are_written_down_and_do_not_count_as_run_time() -> None:
    task = task_record(started_at=900.0, paused_seconds=30.0)
    seen = [observed(task.id, paused=True)]
    assert look(job_record(), [task], seen, told_to_pause={task.id}) == [TaskPaused(task, NOW)]
    assert look(job_record(), [task], seen) == [TaskPaused(task, NOW, by_others=True)]
    assert look(job_record(), [task], seen, service_started=NOW - 5.0) == [TaskPaused(task, NOW)]
    assert run_seconds(task, NOW) == 70.0
    paused = task_record(started_at=900.0, paused_seconds=30.0, paused_at=950.0)
    assert look(job_record(), [paused], [observed(paused.id, paused=True)]) == []
    assert look(job_record(), [paused], [observed(paused.id)]) == [TaskResumed(paused, NOW)]
    assert run_seconds(paused, NOW) == 20.0
    late = look(job_record(max_duration=25.0, run_seconds=6.0), [paused], [observed(paused.id, paused=True)])
    assert reasons(late) == [Reason.TIME_LIMIT_REACHED]
    assert look(job_record(max_duration=27.0, run_seconds=6.0), [paused], [observed(paused.id, paused=True)]) == []


def test_a_gang_runs_once_all_of_it_runs() -> None:
    first, second = task_record(rank=0, state="wanted"), task_record(rank=1, state="wanted")
    one = look(job_record(state="starting"), [first, second], [observed(first.id)])
    assert reasons(one) == []
    both = look(job_record(state="starting"), [first, second], [observed(first.id), observed(second.id)])
    assert reasons(both) == [Reason.CONTAINER_RUNNING]


@pytest.mark.parametrize(
    ("job", "exit_code", "reason"),
    [
        (job_record(), 0, Reason.COMPLETED),
        (job_record(state="starting"), 0, Reason.COMPLETED),
        (job_record(), 3, Reason.COMMAND_FAILED),
        (job_record(max_restarts=1), 3, Reason.RETRY),
        (job_record(max_restarts=1, restarts=5), 3, Reason.RETRY),
        (job_record(max_restarts=1, retries=1), 3, Reason.COMMAND_FAILED),
        (job_record(state="stopping", reason="cancel_requested"), 143, Reason.CANCELLED),
        (job_record(state="stopping", reason="cancel_requested"), 0, Reason.CANCELLED),
        (job_record(state="stopping", reason="time_limit_reached"), 143, Reason.TIME_LIMIT),
        (job_record(state="stopping", reason="prune_requested"), 143, Reason.PRUNED),
        (job_record(state="stopping", reason="prune_requested"), 0, Reason.PRUNED),
        (job_record(state="resizing"), 143, Reason.RESIZED),
        (job_record(state="resizing"), 0, Reason.COMPLETED),
        (job_record(state="resizing"), PREEMPTED, Reason.RESIZED),
        (job_record(), PREEMPTED, Reason.PREEMPTED),
        (job_record(losses=MAX_LOSSES), PREEMPTED, Reason.COMMAND_FAILED),
        (job_record(), KILLED, Reason.COMMAND_FAILED),
        (job_record(elastic=True), KILLED, Reason.LOST),
        (job_record(elastic=True, losses=MAX_LOSSES), KILLED, Reason.TOO_MANY_LOSSES),
    ],
)
def test_what_an_exit_means_depends_on_what_was_asked(job: Job, exit_code: int, reason: Reason) -> None:
    task = task_record()
    findings = look(job, [task], [observed(task.id, EngineState.EXITED, exit_code=exit_code)])
    assert isinstance(findings[0], TaskEnded)
    assert reasons(findings) == [reason]


def test_an_elastic_job_that_took_too_much_memory_is_not_tried_again() -> None:
    task = task_record()
    seen = observed(task.id, EngineState.EXITED, exit_code=KILLED, oom_killed=True)
    assert reasons(look(job_record(elastic=True), [task], [seen])) == [Reason.COMMAND_FAILED]


def test_a_job_killed_for_its_memory_says_what_it_had_and_may_have() -> None:
    task = task_record()
    seen = observed(task.id, EngineState.EXITED, exit_code=KILLED, oom_killed=True)

    def said(memory: MemorySeen | None) -> str:
        evidence = Evidence(NOW, 0.0, {"h1": Observation([seen], NOW, asked_at=1.0)}, memory_of={task.id: memory}.get)
        job = job_record()
        [ended, *_] = outcomes_of({job.id: job}, [task], {job.id: []}, evidence).findings
        assert isinstance(ended, TaskEnded)
        return ended.error

    assert said(MemorySeen(700 << 20, 1 << 30)) == (
        "it ran out of memory and was killed: its limit is 1.0 GiB (the key `memory`); its highest "
        "observed use is 700 MiB, read every ten seconds"
    )
    for unknown in (None, MemorySeen(5, None)):
        assert said(unknown) == OUT_OF_MEMORY


def test_a_container_that_vanished_is_started_again_but_not_for_ever() -> None:
    task = task_record()
    assert reasons(look(job_record(), [task], [])) == [Reason.LOST]
    assert reasons(look(job_record(losses=MAX_LOSSES), [task], [])) == [Reason.TOO_MANY_LOSSES]


def test_a_host_that_does_not_answer_changes_nothing() -> None:
    assert look(job_record(), [task_record()], None) == []


def test_a_task_that_was_not_started_yet_is_not_lost() -> None:
    assert look(job_record(state="starting"), [task_record(state="wanted")], []) == []


def test_a_task_to_be_stopped_that_never_ran_is_over_once_that_is_certain() -> None:
    job = job_record(state="stopping", reason="cancel_requested")
    task = task_record(state="wanted", stop=True, started_at=None)
    assert reasons(look(job, [task], [])) == [Reason.CANCELLED]
    assert look(job, [task], [], maybe_starting=frozenset({task.id})) == []
    assert look(job, [task], [], settled_at=2.0) == []


def test_a_refused_start_fails_the_job_with_the_engines_words() -> None:
    task = task_record(state="wanted", started_at=None)
    refusal = {task.id: Refusal(Reason.START_REFUSED, "no such device")}
    findings = look(job_record(state="starting"), [task], [], refusals=refusal)
    assert reasons(findings) == [Reason.START_REFUSED]
    assert findings[-1].message == "no such device"  # type: ignore[union-attr]


@pytest.mark.parametrize(("losses", "reason"), [(0, Reason.IMAGE_GONE), (MAX_LOSSES, Reason.TOO_MANY_LOSSES)])
def test_a_job_whose_image_was_removed_gives_its_gpus_back_but_not_for_ever(losses: int, reason: Reason) -> None:
    task = task_record(state="wanted", started_at=None)
    refusal = {task.id: Refusal(Reason.IMAGE_GONE, "The image x is no longer on h1.")}
    findings = look(job_record(state="starting", losses=losses), [task], [], refusals=refusal)
    assert isinstance(findings[0], TaskEnded)
    assert reasons(findings) == [reason]
    assert "The image x is no longer on h1." in findings[-1].message  # type: ignore[union-attr]


def test_a_gang_of_which_one_lost_its_image_is_ended_and_starts_again_as_a_whole() -> None:
    gone, other = task_record(rank=0, state="wanted", started_at=None), task_record(rank=1)
    refusal = {gone.id: Refusal(Reason.IMAGE_GONE, "It is gone.")}
    first = look(job_record(state="starting"), [gone, other], [observed(other.id)], refusals=refusal)
    assert [f.stop_tasks for f in first if isinstance(f, JobMoved)] == [True]
    ended = task_record(rank=0, state="ended", outcome="image_gone", error="It is gone.")
    other = other._replace(stop=True)
    exited = [observed(other.id, EngineState.EXITED, exit_code=143)]
    assert reasons(look(job_record(state="starting"), [other], exited, ended=[ended])) == [Reason.IMAGE_GONE]


def test_when_one_of_a_gang_ends_badly_the_others_are_stopped_and_then_the_job_fails() -> None:
    bad, other = task_record(rank=0), task_record(rank=1)
    first = look(job_record(), [bad, other], [observed(bad.id, EngineState.EXITED, exit_code=1), observed(other.id)])
    assert [f.stop_tasks for f in first if isinstance(f, JobMoved)] == [True]
    bad_ended = task_record(rank=0, state="ended", outcome="command_failed", exit_code=1)
    other = other._replace(stop=True)
    assert look(job_record(), [other], [observed(other.id)], ended=[bad_ended]) == []
    last = look(job_record(), [other], [observed(other.id, EngineState.EXITED, exit_code=143)], ended=[bad_ended])
    assert reasons(last) == [Reason.COMMAND_FAILED]


def test_a_job_is_ended_at_its_max_duration_counting_earlier_attempts() -> None:
    task = task_record(started_at=NOW - 50)
    seen = [observed(task.id)]
    assert look(job_record(max_duration=100.0, run_seconds=49.0), [task], seen) == []
    findings = look(job_record(max_duration=100.0, run_seconds=50.0), [task], seen)
    assert reasons(findings) == [Reason.TIME_LIMIT_REACHED]


def test_all_tasks_gone_but_the_books_not_yet_closed_is_concluded_later() -> None:
    """The job was changed by a user in the very moment its last task's end was written down."""
    ended = task_record(state="ended", outcome="command_failed", exit_code=143)
    job = job_record(state="stopping", reason="cancel_requested")
    assert reasons(look(job, [], [], ended=[ended])) == [Reason.CANCELLED]


@pytest.mark.parametrize(
    ("since", "silent", "started", "finished", "code", "lost"),
    [
        (0.0, True, 50.0, 99.0, 1, False),  # the service was away: what failed on its own meanwhile has failed
        (0.0, True, 50.0, 99.0, 137, True),  # but a kill was the engine's end, or its clearing up
        (0.0, True, 50.0, 110.0, 137, True),
        (0.0, True, 50.0, 120.0, 137, False),
        (0.0, True, 105.0, 106.0, 137, False),  # begun since: its own doing
        (90.0, True, 50.0, 95.0, 1, True),
        (90.0, True, 50.0, 110.0, 1, False),
        (90.0, True, 50.0, 89.5, 1, True),  # clocks differ a little
        (90.0, True, 50.0, 80.0, 137, False),
        (90.0, True, 50.0, 95.0, 0, False),
        (90.0, False, 50.0, 95.0, 1, False),  # it answered all the time: what fails has failed
        (90.0, False, 50.0, 110.0, 143, True),  # but its engine may have been restarted in between, and have killed
        (90.0, False, 105.0, 110.0, 143, False),
    ],
)
def test_what_ends_while_its_host_does_not_answer_is_lost_and_not_failed(
    since: float, silent: bool, started: float, finished: float, code: int, lost: bool
) -> None:
    ended = ObservedTask("t", EngineState.EXITED, exit_code=code, started_at=started, finished_at=finished)
    seen = through_outages(ended, [Outage(since, 100.0, silent)])
    assert (seen.state is EngineState.LOST) == lost


@pytest.mark.parametrize(("begun_at", "lost"), [(None, True), (99.9, True), (100.0, False)])
def test_what_this_service_began_after_an_outage_was_not_ended_by_it(begun_at: float | None, lost: bool) -> None:
    """As a command that ends with 255 in the first second of a service: it must not run twice."""
    ended = ObservedTask("t", EngineState.EXITED, exit_code=255, started_at=100.2, finished_at=100.3)
    seen = through_outages(ended, [Outage(0.0, 100.0)], begun_at)
    assert (seen.state is EngineState.LOST) == lost


def test_a_gang_of_which_one_host_has_done_its_work_is_left_to_finish() -> None:
    """Its other containers end a moment later: nobody waits in vain for it to start."""
    first, second = (task_record(rank=rank, started_at=NOW - 10 * MEET_S) for rank in (0, 1))
    seen = [observed(first.id), observed(second.id, EngineState.EXITED, exit_code=0)]
    assert reasons(look(job_record(), [first, second], seen)) == []


def test_a_gang_of_which_one_never_starts_is_undone() -> None:
    first = task_record(rank=0, started_at=NOW - 2 * MEET_S)
    second = task_record(rank=1, state="wanted", started_at=None)
    [moved] = look(job_record(state="starting"), [first, second], [observed(first.id)])
    assert isinstance(moved, JobMoved)
    assert moved.stop_tasks
