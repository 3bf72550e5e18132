"""Loops over cases in one test: all failures are told, with their cases."""

from __future__ import annotations

import inspect

import pytest
from matrices import each


def test_every_case_runs_and_all_failures_are_told() -> None:
    seen = []

    @each([(1, "a"), (2, "b"), (3, "c")], "number", "letter")
    def check(fixture: str, number: int, letter: str) -> None:
        seen.append((fixture, letter))
        assert number != 1
        if number == 3:
            pytest.fail("of its own")

    assert list(inspect.signature(check).parameters) == ["fixture"], "what pytest gives it"
    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed") as failed:
        check(fixture="x")
    assert seen == [("x", "a"), ("x", "b"), ("x", "c")]
    notes = [error.__notes__ for error in failed.value.exceptions]
    assert notes == [["in case number=1, letter='a'"], ["in case number=3, letter='c'"]]


def test_a_loop_without_failures_passes_and_one_without_cases_does_not() -> None:
    each(["a", "b"], "letter")(lambda letter: None)()
    with pytest.raises(AssertionError, match="no cases"):
        each([], "letter")(lambda letter: None)()
