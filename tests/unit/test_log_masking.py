"""Secret values in logs, in whatever pieces the logs are read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.runtimes.log_masking import SHORTEST, hide, parts_of, unsure

values = st.lists(st.text("ab1", min_size=SHORTEST, max_size=12), min_size=1, max_size=3)


def read_in_pieces(log: bytes, parts: tuple[bytes, ...], sizes: list[int]) -> bytes:
    """As a reader of a log that grows by `sizes`."""
    shown, there = b"", 0
    for size in [*sizes, len(log)]:
        there = min(len(log), there + size)
        data = hide(log[len(shown) : there], parts)
        shown += data if there == len(log) else data[: len(data) - unsure(data, parts)]
    return shown


@given(secrets=values, words=st.lists(st.text("ab1 \n", max_size=6), max_size=6), sizes=st.lists(st.integers(0, 9)))
def test_no_value_is_shown_however_the_log_grows(secrets: list[str], words: list[str], sizes: list[int]) -> None:
    parts = parts_of(secrets)
    log = "".join(word + secrets[index % len(secrets)] for index, word in enumerate(words)).encode()
    shown = read_in_pieces(log, parts, sizes)
    assert len(shown) == len(log), "offsets stay what they are"
    assert not any(part in shown for part in parts)


def test_a_value_whose_end_is_its_beginning_is_hidden_in_pieces_too() -> None:
    assert read_in_pieces(b"12341234 12341234!", parts_of(["12341234"]), [8, 4, 6]) == b"******** ********!"


def test_lines_of_a_value_are_hidden_one_by_one_and_short_ones_are_not() -> None:
    parts = parts_of(["-----BEGIN-----\nabcdefghijkl\nend\n"])
    assert hide(b"[0] abcdefghijkl end", parts) == b"[0] ************ end"
