"""How much a request body may hold, before anything of it is parsed."""

from __future__ import annotations

import json

import pytest

from schedulearn.api.edge.bodies import ONE, Bound
from schedulearn.scheduler.errors import InvalidError, TooLargeError


def test_a_body_has_at_most_so_many_bytes() -> None:
    bound = Bound(size=100, values=50)
    bound.check(b"1" * 100)
    with pytest.raises(TooLargeError, match="has 101 bytes"):
        bound.check(b"1" * 101)


@pytest.mark.parametrize("body", [[0] * 6000, {str(n): 0 for n in range(6000)}, [[]] * 6000, [{"a": 1}] * 6000])
def test_a_body_has_at_most_so_many_values(body: object) -> None:
    with pytest.raises(InvalidError, match="more than 5000 values"):
        ONE.check(json.dumps(body).encode())


def test_what_stands_in_a_text_is_no_value() -> None:
    ONE.check(json.dumps({"command": '[{,\\"' * 6000}).encode())
