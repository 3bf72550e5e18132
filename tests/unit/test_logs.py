"""LogStore: offsets that hold, a cap that holds, and readers beside a writer."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.runtimes.log_store import LogStore

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
