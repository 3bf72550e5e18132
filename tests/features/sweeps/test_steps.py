"""What a sweep does next, over every course that its jobs may take."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from schedulearn.features.sweeps.steps import (
    ChangeState,
    StartRuns,
    SweepProgress,
    SweepReason,
    SweepState,
    next_step,
)


def progress(**fields: object) -> SweepProgress:
    defaults = {
        "id": "s", "user": "ada", "state": SweepState.RUNNING, "reason": SweepReason.STARTED, "max_parallel": 2,
        "max_failures": None, "runs": 4, "open": False, "pending": 0, "active": 0, "succeeded": 0,
        "failed": 0, "cancelled": 0,
    }  # fmt: skip
    return SweepProgress(**{**defaults, **fields})  # type: ignore[arg-type]


@dataclass
class Course:
    """A sweep whose jobs end as `ends` says, several at a time."""

    runs: int
    max_parallel: int
    max_failures: int | None
    counts: dict[str, int] = field(default_factory=dict)
    state: SweepState = SweepState.RUNNING
    reason: SweepReason = SweepReason.STARTED
    message: str = ""
    most_active: int = 0

    def __post_init__(self) -> None:
        self.counts = {"pending": self.runs, "active": 0, "succeeded": 0, "failed": 0, "cancelled": 0}

    def settle(self) -> None:
        """All the steps that there are now; they must come to an end."""
        for _ in range(4):
            seen = progress(
                state=self.state, reason=self.reason, max_parallel=self.max_parallel, runs=self.runs,
                max_failures=self.max_failures, **self.counts,
            )  # fmt: skip
            match next_step(seen):
                case None:
                    return
                case StartRuns(count):
                    self.counts["pending"] -= count
                    self.counts["active"] += count
                    self.most_active = max(self.most_active, self.counts["active"])
                case ChangeState(state, reason, message):
                    self.state, self.reason, self.message = state, reason, message
        raise AssertionError("its steps come to no end")

    def end(self, how: str, count: int) -> None:
        count = min(count, self.counts["active"])
        self.counts["active"] -= count
        self.counts[how] += count


ends = st.lists(st.tuples(st.sampled_from(["succeeded", "succeeded", "failed", "cancelled"]), st.integers(1, 5)))


@given(st.integers(1, 30), st.integers(1, 8), st.none() | st.integers(0, 5), ends)
def test_a_sweep_always_ends_and_never_has_more_jobs_than_it_may(
    runs: int, max_parallel: int, max_failures: int | None, course: list[tuple[str, int]]
) -> None:
    sweep = Course(runs, max_parallel, max_failures)
    sweep.settle()
    for how, count in [*course, *[("succeeded", 1)] * runs]:
        may_start = sweep.state is SweepState.RUNNING
        before = sweep.counts["pending"]
        sweep.end(how, count)
        sweep.settle()
        assert sum(sweep.counts.values()) == runs
        assert sweep.most_active <= max_parallel
        assert may_start or sweep.counts["pending"] == before, "it started a run though it is stopping"
    assert sweep.state.ended
    assert sweep.counts["active"] == 0
    too_many = max_failures is not None and sweep.counts["failed"] > max_failures
    assert (sweep.state is SweepState.FAILED) == too_many
    assert (sweep.state is SweepState.COMPLETED) == (not too_many)
    assert sweep.counts["pending"] == 0 or too_many


def test_as_many_failures_as_allowed_stop_nothing_and_one_more_does() -> None:
    assert next_step(progress(max_failures=2, failed=2, pending=2)) == StartRuns(2)
    step = next_step(progress(max_failures=2, failed=3, pending=1, active=1))
    assert isinstance(step, ChangeState)
    assert (step.state, step.cancel_waiting) == (SweepState.STOPPING, True)
    assert "max_failures is 2" in step.message
    assert "running ones continue" in step.message


def test_a_sweep_that_stops_waits_for_what_runs() -> None:
    stopping = progress(state=SweepState.STOPPING, reason=SweepReason.CANCELLED, active=1, pending=3)
    assert next_step(stopping) is None
    end = next_step(stopping._replace(active=0, succeeded=1))
    assert end == ChangeState(SweepState.CANCELLED, SweepReason.CANCELLED, "Of 4 runs 1 succeeded, 3 never started.")


def test_nothing_is_done_to_a_sweep_that_has_ended() -> None:
    for state in (SweepState.COMPLETED, SweepState.FAILED, SweepState.CANCELLED):
        assert next_step(progress(state=state, pending=3)) is None


def test_no_more_runs_start_than_jobs_may_wait() -> None:
    assert next_step(progress(pending=4, max_parallel=4), room=3) == StartRuns(3)
    assert next_step(progress(pending=4, max_parallel=2), room=3) == StartRuns(2)
    assert next_step(progress(pending=4, active=1), room=0) is None, "one of its own jobs makes room"
    step = next_step(progress(pending=4), room=-2)
    assert step == ChangeState(
        SweepState.RUNNING, SweepReason.OVER_QUOTA,
        "2 runs can't start yet: ada, or their group, has reached the quota of waiting jobs.",
    )  # fmt: skip
    waits = progress(pending=4, reason=SweepReason.OVER_QUOTA)
    assert next_step(waits, room=0) is None
    again = next_step(waits, room=1)
    assert isinstance(again, ChangeState)
    assert (again.state, again.reason) == (SweepState.RUNNING, SweepReason.STARTED)
    assert next_step(progress(), room=0) == next_step(progress()), "none is left to start"


def test_no_run_starts_while_the_disk_is_low_whatever_the_quota_says() -> None:
    for runs in (
        progress(pending=4),
        progress(pending=4, active=1),
        progress(pending=4, reason=SweepReason.OVER_QUOTA),
    ):
        for room in (None, 0, 3):
            step = next_step(runs, room, disk_low=True)
            assert isinstance(step, ChangeState)
            assert (step.state, step.reason) == (SweepState.RUNNING, SweepReason.DISK_LOW)
            assert "can't start yet: the disk" in step.message
    waits = progress(pending=4, active=1, reason=SweepReason.DISK_LOW)
    assert next_step(waits, disk_low=True) is None, "it is said once"
    assert next_step(progress(active=1), disk_low=True) is None, "none is left to start"
    again = next_step(waits)
    assert again == ChangeState(
        SweepState.RUNNING, SweepReason.STARTED, "The disk has capacity again: more runs start."
    )  # fmt: skip
    over = next_step(waits, room=0)
    assert isinstance(over, ChangeState)
    assert over.reason is SweepReason.OVER_QUOTA, "the disk is not the reason any more"
