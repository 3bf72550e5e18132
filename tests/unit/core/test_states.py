import pytest

from schedulearn.scheduler.core.states import TERMINAL, TRANSITIONS, JobState, Reason, check_transition
from schedulearn.scheduler.errors import IllegalTransitionError


def test_every_state_has_its_row_of_transitions() -> None:
    assert set(TRANSITIONS) == set(JobState)


def test_every_reason_belongs_to_a_state_and_every_state_has_a_reason() -> None:
    assert {reason.to_state() for reason in Reason} == set(JobState)


def test_every_state_can_be_reached_from_queued_and_can_come_to_an_end() -> None:
    reached, frontier = {JobState.QUEUED}, [JobState.QUEUED]
    while frontier:
        for after in TRANSITIONS[frontier.pop()] - reached:
            reached.add(after)
            frontier.append(after)
    assert reached == set(JobState)
    for state in set(JobState) - TERMINAL:
        assert any(after in TERMINAL or TRANSITIONS[after] & TERMINAL for after in TRANSITIONS[state])


@pytest.mark.parametrize("before", sorted(TERMINAL))
def test_an_ended_job_never_changes_again(before: JobState) -> None:
    for after in JobState:
        with pytest.raises(IllegalTransitionError):
            check_transition(before, after)


def test_a_transition_outside_the_table_is_refused() -> None:
    with pytest.raises(IllegalTransitionError, match="queued to running"):
        check_transition(JobState.QUEUED, JobState.RUNNING)
    check_transition(JobState.QUEUED, JobState.QUEUED)
