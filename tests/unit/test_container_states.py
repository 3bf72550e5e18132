"""Which containers are inspected, and what is believed meanwhile: the engine is a table of answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from builders import observed

from schedulearn.scheduler.core.task import EngineState, ObservedTask
from schedulearn.scheduler.errors import RuntimeFault
from schedulearn.scheduler.runtimes.docker.states import ContainerStates, Inspected

TASK = "schedulearn-j-1-0"
RUNS = Inspected("running", observed(TASK))
ENDED = Inspected("exited", observed(TASK, EngineState.EXITED, exit_code=3))


class Answers:
    """What the engine says, one answer after the other; then the last one again."""

    def __init__(self, *answers: Inspected | RuntimeFault | None) -> None:
        self.answers: Iterator[Inspected | RuntimeFault | None] = iter(answers)
        self.last: Inspected | RuntimeFault | None = None
        self.asked = 0

    def __call__(self, task_id: str, container: str) -> Inspected | None:
        self.asked += 1
        self.last = next(self.answers, self.last)
        if isinstance(self.last, RuntimeFault):
            raise self.last
        return self.last


def round_of(states: ContainerStates, listed: str) -> ObservedTask | None:
    states.begin()
    found = states.look(TASK, "c", listed)
    states.keep({"c"})
    return found


def test_what_has_not_changed_is_not_inspected_again() -> None:
    engine = Answers(RUNS)
    states = ContainerStates(engine)
    assert [round_of(states, "running") for _ in range(3)] == [RUNS.task] * 3
    assert engine.asked == 1


def test_a_container_that_died_is_inspected_though_the_list_shows_it_running() -> None:
    engine = Answers(RUNS, ENDED)
    states = ContainerStates(engine)
    round_of(states, "running")
    states.changed("c", "die")
    states.changed("c", "oom")
    assert round_of(states, "running") == ENDED.task
    assert round_of(states, "exited") == ENDED.task
    assert engine.asked == 2


def test_an_answer_that_lags_too_is_asked_for_again_but_not_for_ever() -> None:
    states = ContainerStates(Answers(RUNS, RUNS, RUNS, ENDED))
    round_of(states, "running")
    states.changed("c", "die")
    assert round_of(states, "running") == ENDED.task
    engine = Answers(RUNS)
    states = ContainerStates(engine)
    round_of(states, "running")
    states.changed("c", "die")
    assert round_of(states, "running") == RUNS.task
    assert engine.asked < 10
    asked = engine.asked
    round_of(states, "running")
    assert engine.asked > asked, "it was given up, and would be seen to run for ever"


def test_one_that_was_started_again_runs() -> None:
    engine = Answers(RUNS)
    states = ContainerStates(engine)
    round_of(states, "running")
    states.changed("c", "die")
    states.changed("c", "start")
    assert round_of(states, "running") == RUNS.task
    assert engine.asked == 2


def test_after_a_gap_in_the_events_all_are_inspected() -> None:
    engine = Answers(RUNS, ENDED)
    states = ContainerStates(engine)
    round_of(states, "running")
    states.missed_events()
    assert round_of(states, "running") == ENDED.task


def test_one_that_hangs_stays_as_it_was_known_and_is_asked_for_in_each_round() -> None:
    engine = Answers(RUNS, RuntimeFault("timed out"), RuntimeFault("timed out"), ENDED)
    states = ContainerStates(engine)
    round_of(states, "running")
    states.changed("c", "die")
    assert round_of(states, "running") == RUNS.task
    assert round_of(states, "running") == RUNS.task
    assert round_of(states, "running") == ENDED.task


def test_one_that_hangs_and_was_never_seen_is_an_error() -> None:
    with pytest.raises(RuntimeFault):
        round_of(ContainerStates(Answers(RuntimeFault("timed out"))), "running")


def test_one_that_is_gone_is_forgotten() -> None:
    states = ContainerStates(Answers(RUNS, None))
    round_of(states, "running")
    states.changed("c", "destroy")
    assert round_of(states, "running") is None
