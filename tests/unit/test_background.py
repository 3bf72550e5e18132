"""Threads that go on until they are closed."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from clusters import wait_for

from schedulearn.scheduler.background import Background, delay_after, start_once


def test_turns_follow_each_other_until_it_is_closed() -> None:
    turns: list[float] = []

    def turn() -> float:
        turns.append(time.monotonic())
        return 0.01

    thread = Background("count", turn)
    thread.start()
    wait_for(lambda: len(turns) > 3)
    thread.close()
    done = len(turns)
    time.sleep(0.05)
    assert len(turns) == done


def test_a_wake_up_ends_a_rest_without_an_end() -> None:
    turns: list[None] = []
    thread = Background("sleepy", lambda: turns.append(None))
    thread.start()
    wait_for(lambda: len(turns) == 1)
    thread.wake()
    wait_for(lambda: len(turns) == 2)
    thread.close()


def test_a_wake_up_during_a_turn_brings_another_turn() -> None:
    began, go_on = threading.Event(), threading.Event()
    turns: list[None] = []

    def turn() -> None:
        turns.append(None)
        began.set()
        assert go_on.wait(10)

    thread = Background("busy", turn)
    thread.start()
    assert began.wait(10)
    thread.wake()
    go_on.set()
    wait_for(lambda: len(turns) == 2)
    thread.close()


def test_an_unforeseen_error_is_logged_and_the_next_turn_comes(caplog: pytest.LogCaptureFixture) -> None:
    again = threading.Event()
    errors = iter([KeyError("unforeseen")])

    def turn() -> None:
        for error in errors:
            raise error
        again.set()

    thread = Background("clumsy", turn, trouble="the shelf could not be tidied", trouble_s=0.01)
    with caplog.at_level(logging.ERROR):
        thread.start()
        assert again.wait(10)
        thread.close()
    [record] = caplog.records
    assert record.getMessage() == "the shelf could not be tidied"
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], KeyError)


def test_closing_waits_no_longer_than_it_is_told_and_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def turn() -> None:
        began.set()
        go_on.wait(10)
        ended.set()
        raise OSError("what it used is closed")

    thread = Background("stuck", turn)
    thread.start()
    assert began.wait(10)
    thread.close(timeout=0.05)
    assert not ended.is_set()
    go_on.set()
    thread.close()
    assert ended.is_set()
    assert caplog.records == []


def test_what_was_never_started_can_be_closed_and_is_not_started_after_that() -> None:
    turns: list[None] = []
    thread = Background("unborn", lambda: turns.append(None))
    thread.close()
    thread.start()
    assert turns == []


def test_a_rest_inside_a_turn_is_ended_by_closing_only() -> None:
    rested: list[bool] = []
    began = threading.Event()

    def turn() -> None:
        began.set()
        rested.append(thread.rest(30))

    thread = Background("resting", turn)
    thread.start()
    assert began.wait(10)
    thread.wake()
    assert rested == []
    thread.close()
    assert rested == [True]


def test_a_turn_may_end_its_own_thread() -> None:
    turns: list[None] = []

    def turn() -> float:
        turns.append(None)
        thread.stop()
        return 0.0

    thread = Background("once", turn)
    thread.start()
    thread.close()
    assert len(turns) == 1


def test_an_error_of_work_that_is_done_once_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("no")

    start_once("a single piece of work", fail).join(10)
    [record] = caplog.records
    assert record.getMessage() == "a single piece of work failed"


def test_delays_grow_to_the_last_one() -> None:
    assert [delay_after(n, (1.0, 5.0)) for n in (1, 2, 3)] == [1.0, 5.0, 5.0]
