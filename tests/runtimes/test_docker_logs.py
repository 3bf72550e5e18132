"""The copy of a container's output is exact, however often and wherever its copier is interrupted."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.scheduler.runtimes.docker import logs as docker_logs
from schedulearn.scheduler.runtimes.docker.logs import CURSOR, LAG_S, Copier, parse_entry
from schedulearn.scheduler.runtimes.log_store import LogStore

TASK = "schedulearn-1-1-0"


Entry = tuple[int, int, int, bytes]
"""stream, seconds, nanoseconds, text"""


class Killed(Exception):
    pass


class Engine:
    """Entries in the order of the engine's file; shows those since a second, as the engine does."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries

    def show(self, since: int, count: int | None = None, dropped: int = 0, kill_after: int | None = None):
        shown = [e for e in self.entries[dropped:count] if e[1] >= since]
        for number, (stream, seconds, nanoseconds, payload) in enumerate(shown):
            if number == kill_after:
                raise Killed
            moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            yield stream, f"{moment}.{nanoseconds:09d}Z ".encode() + payload


@st.composite
def outputs(draw) -> list[Entry]:
    """Two streams that interleave: times rise within each, are a little out of order between them, may be equal, and
    all parts of a long line bear the time of its first part, however late they come."""
    clock, entries = 1_700_000_000 * 10**9, []
    open_line: int | None = None
    for _ in range(draw(st.integers(0, 60))):
        clock += draw(st.sampled_from([0, 1, 1, 10**6, 10**9, 7 * 10**9, 100 * 10**9]))
        text = draw(st.sampled_from([b"x", b"", b"\xff", b"loss 1", b"same"]))
        kind = draw(st.sampled_from(["line", "line", "late line", "part"]))
        if kind == "part":
            open_line = clock if open_line is None else open_line
            ended = draw(st.booleans())
            entries.append((2, open_line, text + (b"\n" if ended else b"")))
            open_line = None if ended else open_line
        else:
            behind = draw(st.integers(0, (LAG_S - 1) * 10**9)) if kind == "late line" else 0
            entries.append((1, clock - behind, text + b"\n"))
    return [(stream, *divmod(moment, 10**9), payload) for stream, moment, payload in entries]


@settings(max_examples=120, deadline=None)
@given(entries=outputs(), data=st.data())
def test_no_byte_is_lost_or_doubled(tmp_path_factory, entries, data) -> None:
    store = LogStore(tmp_path_factory.mktemp("logs"))
    engine = Engine(entries)
    written = 0
    for _ in range(data.draw(st.integers(0, 5))):
        # The service lives while some more entries come, saves its cursor as often as it likes, and is killed.
        written = data.draw(st.integers(written, len(entries)))
        copier = Copier(store.writer(TASK), str(store.path(TASK) / CURSOR))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(docker_logs, "SAVE_S", data.draw(st.sampled_from([-1.0, 1000.0])))
            try:
                kill_after = data.draw(st.none() | st.integers(0, 40))
                copier.copy(engine.show(copier.since, written, kill_after=kill_after))
            except Killed:
                if data.draw(st.booleans()):
                    copier.rewind()
        copier.release()
    copier = Copier(store.writer(TASK), str(store.path(TASK) / CURSOR))
    copier.copy(engine.show(copier.since))
    copier.finish()
    assert store.read(TASK, 0, 10**6)[1] == b"".join(payload for *_, payload in entries)


def lines(first: int, last: int, second: int = 1_700_000_000) -> list[Entry]:
    return [(1, second + number, 5, f"{number}\n".encode()) for number in range(first, last)]


def copy(store: LogStore, shown) -> None:
    copier = Copier(store.writer(TASK), str(store.path(TASK) / CURSOR))
    try:
        copier.copy(shown(copier.since))
    finally:
        copier.release()


def test_lines_keep_the_times_that_the_engine_gave_them(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    engine = Engine(lines(0, 8))
    copy(store, lambda since: engine.show(since, 5))
    copy(store, engine.show)
    assert store.times(TASK, 0, 16) == [(2 * number, 1_700_000_000 + number) for number in range(8)]


def test_entries_that_the_engine_dropped_meanwhile_do_not_hide_new_ones(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    engine = Engine(lines(0, 30))
    copy(store, lambda since: engine.show(since, 20))
    # The engine has rotated away all but its last 13 entries, 3 of which were copied.
    copy(store, lambda since: engine.show(since, dropped=17))
    assert store.read(TASK, 0, 1000)[1] == b"".join(payload for *_, payload in engine.entries)


def test_entries_that_the_engine_left_out_do_not_make_it_repeat_others(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    engine = Engine(lines(0, 8))
    with_gap = Engine([*engine.entries[:2], *engine.entries[5:8]])
    copy(store, with_gap.show)
    engine.entries += lines(8, 12)
    with pytest.raises(ValueError, match="had before"):
        copy(store, engine.show)
    copy(store, engine.show)
    assert store.read(TASK, 0, 1000)[1].split() == [b"0", b"1", *(str(n).encode() for n in range(5, 12))]


def test_a_stream_that_is_cut_off_early_changes_nothing(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    engine = Engine(lines(0, 8))
    copy(store, engine.show)
    copy(store, lambda since: engine.show(since, 3))
    copy(store, lambda since: engine.show(since, 0))
    engine.entries += lines(8, 10)
    copy(store, engine.show)
    assert store.read(TASK, 0, 1000)[1] == b"".join(b"%d\n" % n for n in range(10))


def test_a_log_that_lost_its_end_in_a_power_cut_is_copied_again(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    engine = Engine(lines(0, 5))
    copy(store, engine.show)
    (store.path(TASK) / "000000000000.log").write_bytes(b"0\n")
    copy(store, engine.show)
    assert store.read(TASK, 0, 1000)[1] == b"0\n1\n2\n3\n4\n"


def test_a_damaged_cursor_is_as_none(tmp_path: Path) -> None:
    store = LogStore(tmp_path)
    engine = Engine(lines(0, 5))
    copy(store, engine.show)
    (store.path(TASK) / CURSOR).write_text("{")
    copy(store, engine.show)
    assert store.read(TASK, 0, 1000)[1] == b"0\n1\n2\n3\n4\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (b"1970-01-01T00:01:00.000000007Z a b\n", 60),
        (b"1970-01-01T02:01:00.000000007+02:00 a b\n", 60),
        (b"1970-01-01T00:01:00.000000007Z ", 60),
    ],
)
def test_an_entry_is_split_into_time_and_text(text: bytes, seconds: int) -> None:
    assert parse_entry(text) == ((seconds, 7), text.partition(b" ")[2])


@pytest.mark.parametrize("text", [b"", b"hello world", b"1970-01-01", b"\xff\xff "])
def test_what_is_no_entry_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_entry(text)
