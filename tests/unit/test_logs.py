"""LogStore: offsets that hold, a cap that holds, and readers beside a writer."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.api.logs.stream import line_times
from schedulearn.api.logs.times import LineStamps
from schedulearn.scheduler.runtimes.log_store import UNKNOWN, LogStore, Written

TASK = "schedulearn-1-1-0"


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    return LogStore(tmp_path / "logs", cap_bytes=40)


def read_all(store: LogStore, offset: int = 0, limit: int = 7) -> tuple[int, bytes]:
    """(offset of the first byte, all bytes from there on)"""
    first, data = store.read(TASK, offset, limit)
    found = data
    while data:
        start, data = store.read(TASK, first + len(found), limit)
        assert start == first + len(found) or not data
        found += data
    return first, found


def test_what_was_appended_is_read_from_any_offset(store: LogStore) -> None:
    writer = store.writer(TASK)
    writer.append(b"hello ")
    writer.append(b"\xff\x00world")
    writer.close()
    assert read_all(store) == (0, b"hello \xff\x00world")
    assert read_all(store, 8) == (8, b"world")
    assert store.read(TASK, 500, 100) == (500, b"")
    assert store.size(TASK) == 13


def test_early_bytes_go_and_offsets_stay(store: LogStore) -> None:
    writer = store.writer(TASK)
    everything = bytes(range(100))
    writer.append(everything)
    writer.close()
    start, data = read_all(store)
    assert start == 60
    assert data == everything[60:]
    assert store.read(TASK, 95, 3) == (95, everything[95:98])
    assert store.size(TASK) == 100


def test_an_unknown_log_is_empty_and_has_not_ended(store: LogStore) -> None:
    assert store.read(TASK) == (0, b"")
    assert store.size(TASK) == 0
    assert not store.ended(TASK)
    assert list(store.follow(TASK)) == []
    store.delete(TASK)


def test_following_yields_bytes_as_they_come_until_the_end(store: LogStore) -> None:
    writer = store.writer(TASK)
    writer.append(b"one ")
    received: list[bytes] = []
    first = threading.Event()

    def follow() -> None:
        for data in store.follow(TASK, poll_s=0.002):
            received.append(data)
            first.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert first.wait(10)
    writer.append(b"two")
    writer.close()
    reader.join(10)
    assert not reader.is_alive()
    assert b"".join(received) == b"one two"


def test_following_ends_when_asked_to_or_when_the_log_is_deleted(store: LogStore) -> None:
    writer = store.writer(TASK)
    writer.append(b"one")
    assert list(store.follow(TASK, stopped=lambda: True)) == [b"one"]
    follower = store.follow(TASK, poll_s=0.002)
    assert next(follower) == b"one"
    store.delete(TASK)
    assert list(follower) == []
    writer.abandon()


def test_a_log_that_is_opened_again_goes_on(store: LogStore) -> None:
    writer = store.writer(TASK)
    writer.append(b"one ")
    writer.close()
    writer.close()
    assert store.ended(TASK)
    writer = store.writer(TASK)
    assert not store.ended(TASK)
    writer.append(b"two")
    writer.abandon()
    assert not store.ended(TASK)
    assert read_all(store) == (0, b"one two")


def test_there_is_one_writer_at_a_time(store: LogStore) -> None:
    writer = store.writer(TASK)
    with pytest.raises(BlockingIOError):
        store.writer(TASK)
    writer.abandon()
    store.writer(TASK).abandon()


def test_truncating_beyond_the_end_is_refused(store: LogStore) -> None:
    writer = store.writer(TASK)
    with pytest.raises(ValueError, match="truncate"):
        writer.truncate(1)
    writer.abandon()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc", ".hidden", "a\0b", "a\n", "ä", "x" * 201])
def test_a_name_that_could_leave_the_root_is_refused(store: LogStore, name: str) -> None:
    with pytest.raises(ValueError, match="not a task id"):
        store.writer(name)
    with pytest.raises(ValueError, match="not a task id"):
        store.read(name)
    with pytest.raises(ValueError, match="not a task id"):
        store.delete(name)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.binary(max_size=60)),
        st.tuples(st.just("truncate"), st.floats(0, 1)),
        st.tuples(st.just("reopen"), st.booleans()),
    ),
    max_size=30,
)


@given(operations=operations, cap=st.integers(1, 64), offset=st.integers(0, 200), limit=st.integers(1, 50))
def test_a_log_is_a_suffix_of_all_that_was_written(
    tmp_path_factory: pytest.TempPathFactory, operations: list, cap: int, offset: int, limit: int
) -> None:
    store = LogStore(tmp_path_factory.mktemp("logs"), cap_bytes=cap)
    writer = store.writer(TASK)
    everything = b""
    for name, argument in operations:
        if name == "append":
            writer.append(argument)
            everything += argument
        elif name == "truncate":
            size = int(len(everything) * argument)
            writer.truncate(size)
            everything = everything[:size]
        else:
            writer.close() if argument else writer.abandon()
            writer = store.writer(TASK)
        assert writer.size == store.size(TASK) == len(everything)
    writer.close()
    start, kept = read_all(store, 0, limit)
    assert everything[start:] == kept
    assert len(kept) <= max(cap, 4)
    first, data = read_all(store, offset, limit)
    assert data == everything[max(first, offset) :]
    assert b"".join(store.follow(TASK)) == kept


# --- when it was written ---


def seconds_of(store: LogStore, limit: int = 7) -> tuple[int, list[int]]:
    """(offset of the first byte kept, the second of each byte from there on)"""
    position, data = store.read(TASK, 0, limit)
    first, found = position, list[int]()
    while data:
        times = [*store.times(TASK, position, len(data)), Written(position + len(data), UNKNOWN)]
        seconds = [UNKNOWN] * (times[0].offset - position)
        for one, following in pairwise(times):
            seconds += [one.second] * (following.offset - one.offset)
        found += seconds
        position, data = store.read(TASK, position + len(data), limit)
    return first, found


def test_each_line_has_the_second_in_which_it_was_written(store: LogStore) -> None:
    writer = store.writer(TASK)
    writer.append(b"one\n", 100.9)
    writer.append(b"two\n", 100)
    writer.append(b"three\n", 103)
    writer.close()
    assert store.times(TASK, 0, 14) == [(0, 100), (8, 103)]
    assert store.times(TASK, 4, 4) == [(4, 100)]
    assert store.times(TASK, 5, 9) == [(5, 100), (8, 103)]
    assert store.times("schedulearn-2-1-0", 0, 14) == []


def test_a_log_of_before_has_no_times_and_what_is_added_has(store: LogStore) -> None:
    directory = store.path(TASK)
    directory.mkdir(parents=True)
    (directory / "000000000000.log").write_bytes(b"old\n")
    assert store.times(TASK, 0, 4) == []
    writer = store.writer(TASK)
    writer.append(b"new\n", 100)
    writer.append(b"who knows\n")
    writer.close()
    assert store.times(TASK, 0, 18) == [(4, 100), (8, UNKNOWN)]


def test_two_streams_a_little_out_of_order_cost_nothing_and_a_clock_set_back_shows(store: LogStore) -> None:
    writer = store.writer(TASK)
    for second in (100, 99, 100, 98, 40, 39, 1 << 40, -5):
        writer.append(b"x", second)
    writer.close()
    assert store.times(TASK, 0, 8) == [(0, 100), (5, 39), (6, (1 << 32) - 1), (7, UNKNOWN)]


def test_a_record_that_a_full_disk_or_a_power_cut_left_is_no_time(store: LogStore) -> None:
    writer = store.writer(TASK)
    writer.append(b"one\n", 100)
    writer.append(b"two\n", 200)
    writer.abandon()
    times = store.path(TASK) / "000000000000.times"
    whole = times.read_bytes()
    times.write_bytes(whole + b"half a")
    (store.path(TASK) / "000000000000.log").write_bytes(b"one\n")
    writer = store.writer(TASK)
    assert times.read_bytes() == whole[:12]
    writer.append(b"new\n", 300)
    writer.close()
    assert store.times(TASK, 0, 8) == [(0, 100), (4, 300)]


@given(operations=operations, cap=st.integers(1, 64), data=st.data(), limit=st.integers(1, 50))
def test_each_byte_that_is_kept_has_its_second(
    tmp_path_factory: pytest.TempPathFactory, operations: list, cap: int, data: st.DataObject, limit: int
) -> None:
    store = LogStore(tmp_path_factory.mktemp("logs"), cap_bytes=cap)
    writer = store.writer(TASK)
    everything: list[int] = []
    second = 1_700_000_000
    for name, argument in operations:
        if name == "append":
            second += data.draw(st.sampled_from([0, 1, 100]))
            writer.append(argument, second)
            everything += [second] * len(argument)
        elif name == "truncate":
            size = int(len(everything) * argument)
            writer.truncate(size)
            everything = everything[:size]
        else:
            writer.close() if argument else writer.abandon()
            writer = store.writer(TASK)
    writer.close()
    start, found = seconds_of(store, limit)
    assert everything[start:] == found
    names = {path.stem for path in store.path(TASK).glob("*.times")}
    assert names == {path.stem for path in store.path(TASK).glob("*.log")}


def test_times_are_told_by_lines() -> None:
    assert line_times(b"a\nb\nc\n", 10, [Written(10, 5), Written(12, 6), Written(14, 7)]) == [(0, 5), (1, 6), (2, 7)]
    assert line_times(b"aa\nbb\ncc\n", 0, [Written(0, 5), Written(4, 6)]) == [(0, 5), (2, 6)], "begun within a line"
    assert line_times(b"ab\nc\n", 0, [Written(0, 5), Written(1, 6), Written(2, 7)]) == [(0, 5), (1, 7)]
    assert line_times(b"a\n", 0, [Written(0, 5), Written(9, 6)]) == [(0, 5)], "what waits is told later"
    assert line_times(b"", 0, [Written(0, 5)]) == []


def test_lines_begin_with_their_times_however_the_pieces_end() -> None:
    stamps = LineStamps()
    text = stamps.stamp("old\nne", [(1, 1_700_000_000)]) + stamps.stamp("w\n\x0bx", [(0, 1_700_000_009)])
    assert text == "- old\n2023-11-14T22:13:20Z new\n2023-11-14T22:13:29Z \x0bx"
    assert stamps.stamp("\n", []) == "\n"
    assert stamps.stamp("z", [(0, 0)]) == "- z"
