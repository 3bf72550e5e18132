from dataclasses import replace

from builders import observed, task_spec
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.needs import Image, Need
from schedulearn.scheduler.core.planning.reconcile import (
    CheckNeed,
    DesiredTask,
    PauseTask,
    RemoveTask,
    ResumeTask,
    StartTask,
    StopTask,
    diff,
    is_fenced,
)
from schedulearn.scheduler.core.task import EngineState, ObservedTask

IMG = Image("img")
A = task_spec("a")
ID = A.task_id


def test_a_wanted_task_is_started_once_its_image_is_there() -> None:
    want = {ID: DesiredTask(A)}
    assert diff(want, [], set(), 0.0) == [CheckNeed(IMG)]
    assert diff(want, [], {IMG}, 0.0) == [StartTask(A)]


def test_a_task_that_was_created_but_never_ran_is_started() -> None:
    assert diff({ID: DesiredTask(A)}, [observed(ID, EngineState.CREATED)], {IMG}, 0.0) == [StartTask(A)]


def test_a_task_that_ran_is_left_to_the_books() -> None:
    for state in (EngineState.RUNNING, EngineState.EXITED, EngineState.LOST):
        assert diff({ID: DesiredTask(A)}, [observed(ID, state)], {IMG}, 0.0) == []


def test_a_task_that_ran_and_is_gone_is_never_started_again() -> None:
    assert diff({ID: DesiredTask(A, ran=True)}, [], {IMG}, 0.0) == []


def test_a_task_to_be_stopped_is_stopped_with_its_grace_and_never_started() -> None:
    want = {ID: DesiredTask(A, stop=True, grace_s=7.0)}
    assert diff(want, [observed(ID)], {IMG}, 0.0) == [StopTask(ID, 7.0)]
    assert diff(want, [observed(ID, EngineState.CREATED)], {IMG}, 0.0) == [RemoveTask(ID)]
    assert diff(want, [], {IMG}, 0.0) == []


def test_orphans_are_stopped_and_the_ended_removed() -> None:
    assert diff({}, [observed(ID)], set(), 0.0) == [StopTask(ID, 10.0)]
    assert diff({}, [observed(ID, EngineState.EXITED)], set(), 0.0) == [RemoveTask(ID)]


def test_a_failed_start_is_tried_again_only_after_its_pause() -> None:
    want = {ID: DesiredTask(A, retry_at=5.0)}
    assert diff(want, [], {IMG}, 4.0) == []
    assert diff(want, [], {IMG}, 5.0) == [StartTask(A)]


B = task_spec("b")  # on the same GPU as A


def test_a_suspended_task_is_paused_and_resumed_when_its_turn_comes() -> None:
    running, paused = observed(ID), observed(ID, paused=True)
    assert diff({ID: DesiredTask(A, suspended=True)}, [running], {IMG}, 0.0) == [PauseTask(ID)]
    assert diff({ID: DesiredTask(A, suspended=True)}, [paused], {IMG}, 0.0) == []
    assert diff({ID: DesiredTask(A)}, [paused], {IMG}, 0.0) == [ResumeTask(ID)]
    assert diff({ID: DesiredTask(A)}, [running], {IMG}, 0.0) == []


def test_a_suspended_task_is_not_started_but_its_image_is_looked_for() -> None:
    want = {ID: DesiredTask(A, suspended=True)}
    assert diff(want, [], {IMG}, 0.0) == []
    assert diff(want, [], set(), 0.0) == [CheckNeed(IMG)]


def test_nobody_pauses_for_one_whose_image_is_yet_to_be_looked_for() -> None:
    want = {ID: DesiredTask(A, suspended=True), "next": DesiredTask(task_spec("b", image="other"))}
    assert diff(want, [observed(ID)], {IMG}, 0.0) == [CheckNeed(Image("other"))]
    assert diff(want, [observed(ID)], {IMG, Image("other")}, 0.0) == [PauseTask(ID)]


def test_a_paused_task_that_is_to_end_is_stopped() -> None:
    want = {ID: DesiredTask(A, stop=True, suspended=True)}
    assert diff(want, [observed(ID, paused=True)], {IMG}, 0.0) == [StopTask(ID, 10.0)]


def test_turns_on_a_gpu_never_overlap() -> None:
    """The next one starts, or goes on, only after the one before was seen paused."""
    want = {ID: DesiredTask(A, suspended=True), B.task_id: DesiredTask(B)}
    for other in ([], [observed(B.task_id, paused=True)]):
        assert diff(want, [observed(ID), *other], {IMG}, 0.0) == [PauseTask(ID)]
    assert diff(want, [observed(ID, paused=True)], {IMG}, 0.0) == [StartTask(B)]
    both = [observed(ID, paused=True), observed(B.task_id, paused=True)]
    assert diff(want, both, {IMG}, 0.0) == [ResumeTask(B.task_id)]


def test_paused_tasks_of_one_gpu_do_not_go_on_together_whatever_the_plan_says() -> None:
    """As after a switch to a policy that knows no turns: whoever runs goes first."""
    want = {ID: DesiredTask(A), B.task_id: DesiredTask(B)}
    both = [observed(ID, paused=True), observed(B.task_id, paused=True)]
    assert diff(want, both, {IMG}, 0.0) == [ResumeTask(ID)]
    assert diff(want, [both[0], observed(B.task_id)], {IMG}, 0.0) == []


def test_two_that_have_one_gpu_do_not_start_together_whatever_the_plan_says() -> None:
    """As after a switch to a policy that knows no turns, or while the first one rests after a start that failed."""
    want = {ID: DesiredTask(A), B.task_id: DesiredTask(B)}
    assert diff(want, [], {IMG}, 0.0) == [StartTask(A)]
    assert diff(want, [observed(ID)], {IMG}, 0.0) == []
    assert diff(want, [observed(ID)], {IMG}, 0.0, share=True) == [StartTask(B)]
    resting = {**want, ID: DesiredTask(A, retry_at=5.0)}
    assert diff(resting, [], {IMG}, 0.0) == []


ids = st.sampled_from([task_spec(x).task_id for x in "abcd"])


@given(
    desired=st.dictionaries(st.sampled_from("abcd"), st.booleans()),
    shown=st.dictionaries(ids, st.sampled_from(EngineState)),
    there=st.sets(st.just(IMG)),
)
def test_acting_on_the_difference_until_it_is_empty_leaves_just_what_is_wanted(
    desired: dict[str, bool], shown: dict[str, EngineState], there: set[Need]
) -> None:
    """A toy engine carries out every action; live tasks end up being those wanted, and nothing that ran restarts."""
    specs = {x: task_spec(x, gpus=(f"GPU-{x}",)) for x in desired}
    want = {specs[x].task_id: DesiredTask(specs[x], stop=stop) for x, stop in desired.items()}
    ran = {task for task, state in shown.items() if state is not EngineState.CREATED}
    for _ in range(4):
        for action in diff(want, [ObservedTask(t, s) for t, s in shown.items()], there, 0.0):
            match action:
                case StartTask(spec):
                    assert spec.task_id not in ran
                    shown[spec.task_id] = EngineState.RUNNING
                    ran.add(spec.task_id)
                case StopTask(task_id):
                    shown[task_id] = EngineState.EXITED
                case RemoveTask(task_id):
                    del shown[task_id]
                case CheckNeed(need):
                    there.add(need)
    assert diff(want, [ObservedTask(t, s) for t, s in shown.items()], there, 0.0) == []
    live = {t for t, s in shown.items() if s is EngineState.RUNNING}
    assert live <= {t for t, w in want.items() if not w.stop}
    assert {t for t, w in want.items() if not w.stop} <= set(shown)


def test_nothing_is_placed_where_a_container_that_was_given_up_lives_until_it_is_removed() -> None:
    running, ended = observed(ID, EngineState.RUNNING), observed(ID, EngineState.EXITED)
    assert not is_fenced([running], {ID}, before=False), "it is wanted"
    assert is_fenced([running], set(), before=False)
    assert is_fenced([ended], set(), before=True), "it has ended, but holds its GPUs until it is removed"
    assert not is_fenced([ended], set(), before=False), "nobody saw it alive after it was given up"
    assert not is_fenced([], set(), before=True), "it was removed"
    assert not is_fenced([replace(running, stuck=True)], set(), before=True), "its engine is stuck with it"
