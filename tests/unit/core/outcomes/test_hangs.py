"""When a job is said to hang, and what follows: over any course of looks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import job_record
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.outcomes.conclusions import Result, conclude
from schedulearn.scheduler.core.outcomes.hangs import (
    MAX_RESTARTS,
    Course,
    Hang,
    HangKind,
    HangLimits,
    Signs,
    follow,
    hang_moves,
    hang_of,
)
from schedulearn.scheduler.core.outcomes.retries import SOON_S, equal_exits
from schedulearn.scheduler.core.states import HOLDS_GPUS, Reason

LIMITS = HangLimits(idle_s=600.0, gpus_unused_s=900.0, steps=100.0, no_step_s=60.0)
NEVER = HangLimits(0.0, 0.0, 0.0, 60.0)
STILL = Signs("j", 1, log_bytes=10, steps=5, gpus=4, busy=False, reported_at=1.0)


def course_of(*looks: tuple[float, Signs]) -> tuple[Course, float]:
    courses: dict[str, Course] = {}
    for now, signs in looks:
        courses = follow(courses, [signs], now)
    return courses["j"], looks[-1][0]


def kind_after(*looks: tuple[float, Signs], limits: HangLimits = LIMITS) -> HangKind | None:
    course, now = course_of(*looks)
    hang = hang_of(course, limits, now)
    return hang.kind if hang is not None else None


@pytest.mark.parametrize("sign", [{"log_bytes": 11}, {"steps": 6}, {"busy": True}])
def test_output_a_step_or_use_of_a_gpu_is_a_sign_of_life(sign: dict[str, int]) -> None:
    assert kind_after((0.0, STILL), (599.0, STILL)) is None
    assert kind_after((0.0, STILL), (600.0, STILL)) is HangKind.IDLE
    assert kind_after((0.0, STILL), (500.0, replace(STILL, **sign)), (800.0, STILL)) is None


def test_what_is_idle_and_what_is_not_measured_is_said() -> None:
    hang = hang_of(Course.begin(STILL, 0.0), LIMITS, 600.0)
    assert hang == Hang(
        HangKind.IDLE,
        600.0,
        "It has shown no activity for 10 min or more: no output, no step reported, and it does not use its "
        "GPUs. It may hang.",
    )
    unmeasured = hang_of(Course.begin(replace(STILL, busy=None), 0.0), LIMITS, 600.0)
    assert unmeasured is not None
    assert "GPUs" not in unmeasured.message


def test_gpus_that_are_not_used_are_told_though_the_job_writes() -> None:
    looks = [(100.0 * i, replace(STILL, log_bytes=i)) for i in range(11)]
    assert kind_after(*looks[:9]) is None
    assert kind_after(*looks[:10]) is HangKind.GPUS_UNUSED
    course, now = course_of(*looks)
    hang = hang_of(course, LIMITS, now)
    assert hang is not None
    assert hang.message == "It holds 4 GPUs and has not used any of them for 15 min or more."
    assert kind_after(*looks, (1100.0, replace(STILL, log_bytes=99, busy=None))) is None, "nobody measures them now"


def training(until: float, step_s: float) -> list[tuple[float, Signs]]:
    """Looks at a job that steps all the time, until then: its GPUs are busy."""
    looks = []
    for look in range(int(until / 10) + 1):
        now = 10.0 * look
        looks.append((now, replace(STILL, steps=int(now / step_s), busy=True, reported_at=now)))
    return looks


def test_workers_that_report_and_do_not_step_wait_for_each_other() -> None:
    looks = training(200.0, step_s=2.0)
    stuck = looks[-1][1]
    assert kind_after(*looks, (390.0, replace(stuck, reported_at=390.0))) is None, "100 of its steps take 200 s"
    found = (400.0, replace(stuck, reported_at=400.0))
    assert kind_after(*looks, found) is HangKind.NO_STEPS
    course, now = course_of(*looks, found)
    hang = hang_of(course, LIMITS, now)
    assert hang is not None
    assert hang.message == (
        "Its workers report, but no step for 3 min or more; a step of it takes 2 s. It may hang."
    )  # 200 s, as rounded
    assert kind_after(*looks, (400.0, replace(stuck, reported_at=400.0, trained=True))) is None
    assert kind_after(*looks, (900.0, stuck)) is None, "workers that can't reach the service may well train"


def test_quick_steps_leave_time_for_an_evaluation() -> None:
    looks = training(200.0, step_s=0.1)
    stuck = looks[-1][1]
    assert kind_after(*looks, (255.0, replace(stuck, reported_at=255.0))) is None
    assert kind_after(*looks, (260.0, replace(stuck, reported_at=260.0))) is HangKind.NO_STEPS


signs = st.builds(
    Signs,
    job_id=st.just("j"),
    attempt=st.integers(1, 2),
    log_bytes=st.integers(0, 3),
    steps=st.integers(0, 5),
    gpus=st.integers(1, 4),
    busy=st.sampled_from([None, False, True]),
    reported_at=st.none() | st.floats(0, 100),
    trained=st.booleans(),
)
gaps = st.lists(st.tuples(st.floats(0.1, 2000.0), signs), min_size=1, max_size=20)


def timed(looks: list[tuple[float, Signs]]) -> list[tuple[float, Signs]]:
    now, found = 0.0, []
    for gap, each in looks:
        now += gap
        found.append((now, each))
    return found


@given(looks=gaps)
def test_no_job_hangs_before_its_limit_nor_where_there_is_none(looks: list[tuple[float, Signs]]) -> None:
    course, now = course_of(*timed(looks))
    hang = hang_of(course, LIMITS, now)
    if hang is not None:
        limit = {"idle": 600.0, "gpus_unused": 900.0, "no_steps": 60.0}[hang.kind]
        first = timed(looks)[0][0]
        assert limit <= hang.seconds <= now - first
    assert hang_of(course, NEVER, now) is None


@given(looks=gaps)
def test_a_job_that_acts_now_is_not_idle_and_a_used_gpu_is_not_unused(looks: list[tuple[float, Signs]]) -> None:
    last = replace(looks[-1][1], busy=True)
    kind = kind_after(*timed([*looks[:-1], (looks[-1][0], last)]))
    assert kind in (None, HangKind.NO_STEPS)


@given(looks=gaps, shift=st.floats(-1e6, 1e6))
def test_only_differences_of_time_count(looks: list[tuple[float, Signs]], shift: float) -> None:
    whole = [(float(round(gap)) + 1, each) for gap, each in looks]
    moved = [(now + round(shift), each) for now, each in timed(whole)]
    assert kind_after(*moved) is kind_after(*timed(whole))


def test_a_job_that_is_left_out_or_starts_anew_begins_anew() -> None:
    courses = follow(follow({}, [STILL], 0.0), [], 500.0)
    again = follow(courses, [STILL], 700.0)["j"]
    assert hang_of(again, LIMITS, 1200.0) is None
    assert kind_after((0.0, STILL), (500.0, replace(STILL, attempt=2)), (700.0, replace(STILL, attempt=2))) is None


HANG = Hang(HangKind.IDLE, 600.0, "It may hang.")


@given(
    state=st.sampled_from(sorted(HOLDS_GPUS)),
    own=st.sampled_from([None, "warn", "restart", "end"]),
    default=st.sampled_from(["warn", "restart", "end"]),
    hangs=st.integers(0, MAX_RESTARTS + 1),
)
def test_a_job_that_hangs_is_stopped_only_as_it_or_the_settings_say(
    state: str, own: str | None, default: str, hangs: int
) -> None:
    job = job_record(state=state, on_hang=own, hangs=hangs)
    moves = hang_moves({"j": job}, {"j": HANG, "gone": HANG}, default)  # type: ignore[arg-type]
    how = own or default
    if state != "running" or how == "warn":
        assert moves == []
        return
    [move] = moves
    assert move.stop_tasks
    again = how == "restart" and hangs < MAX_RESTARTS
    assert move.reason is (Reason.HANG_RESTART if again else Reason.HANG_END)
    assert move.changes.get("hangs", hangs) == hangs + again, "it can't be restarted for ever"


@pytest.mark.parametrize("code", [0, 75, 137, 143])
def test_a_job_that_is_ended_because_it_hangs_says_so_however_it_stops(code: int) -> None:
    outcome = Reason.COMMAND_FAILED if code else Reason.COMPLETED
    job = job_record(state="stopping", reason="hang_end", message="It may hang. Therefore it is ended.", elastic=True)
    moved = conclude(job, [Result(outcome, code)], 100.0, 50.0)
    assert (moved.reason, moved.message, moved.stopped_as) == (Reason.HUNG, job.message, Reason.HUNG)
    again = conclude(job_record(state="resizing", reason="hang_restart"), [Result(outcome, code)], 100.0, 50.0)
    if code:
        assert (again.reason, again.stopped_as) == (Reason.RETRY, Reason.HUNG)
        assert "retries" not in again.changes, "it does not count as a failure of its command"
    else:
        assert again.reason is Reason.COMPLETED


def test_a_completed_job_carries_the_warning_of_its_task() -> None:
    results = [Result(Reason.COMPLETED, 0), Result(Reason.COMPLETED, 0, "Warning: its workers trained alone.")]
    moved = conclude(job_record(state="running"), results, 100.0, 50.0)
    assert moved.message == "The command ended with exit code 0. Warning: its workers trained alone."


def exits(*tries: tuple[int, float], limit: int = 3, restarts: int = 100) -> list[Reason]:
    """What becomes of a job whose command ends like this, one try after another."""
    job, found = job_record(max_restarts=restarts), []
    for code, ran_s in tries:
        moved = conclude(job, [Result(Reason.COMMAND_FAILED, code)], 100.0, ran_s, limit)
        found.append(moved.reason)
        if moved.reason is not Reason.RETRY:
            break
        changes = {key: moved.changes[key] for key in ("retries", "last_exit", "equal_exits")}  # type: ignore[literal-required]
        job = job._replace(**changes)
    return found


def test_equal_exits_soon_after_the_start_are_a_crash_loop_and_others_are_bad_luck() -> None:
    assert exits((3, 1.0), (3, 1.0), (3, 1.0)) == [Reason.RETRY, Reason.RETRY, Reason.CRASH_LOOP]
    assert exits((3, 1.0), (4, 1.0), (3, 1.0), (4, 1.0)) == [Reason.RETRY] * 4
    assert exits((3, 1.0), (3, 1.0), (3, SOON_S + 1), (3, 1.0), (3, 1.0)) == [Reason.RETRY] * 5
    assert exits(*[(3, 1.0)] * 50, limit=0) == [Reason.RETRY] * 50
    assert exits(*[(3, 1.0)] * 4, restarts=1) == [Reason.RETRY, Reason.COMMAND_FAILED], "its restarts are used up first"


def test_a_crash_loop_says_why_it_is_not_tried_again() -> None:
    job = job_record(max_restarts=1000, retries=9, equal_exits=9, last_exit=3)
    moved = conclude(job, [Result(Reason.COMMAND_FAILED, 3)], 100.0, 1.0, 10)
    assert moved.message == (
        "The command ended with exit code 3 10 times in a row, each within 60 s of its start: it is not retried again. "
        "991 more retries stay unused. See its log."
    )
    assert moved.changes.get("exit_code") == 3


@given(tries=st.lists(st.tuples(st.integers(1, 3), st.floats(0, 2 * SOON_S)), max_size=30))
def test_the_count_is_that_of_the_equal_quick_exits_at_the_end(tries: list[tuple[int, float]]) -> None:
    count, last = 0, None
    for code, ran_s in tries:
        count, last = equal_exits(count, last, code, ran_s), code
    expected = 0
    for code, ran_s in reversed(tries):
        if ran_s > SOON_S or code != last:
            break
        expected += 1
    assert count == expected
