"""What Xids of several jobs say of a GPU."""

from __future__ import annotations

from matrices import each

from schedulearn.scheduler.core.outcomes.xids import XIDS, Suspects, WatchedXid, XidVerdict, meaning_of, suspects


def seen(*rows: str) -> list[WatchedXid]:
    """Each as in `GPU job program`."""
    return [WatchedXid(*row.split()) for row in rows]


SWEEP = seen(*(f"g{number % 8} {number} x" for number in range(80)))
TWO = seen(*(f"{gpu} {gpu}{number} {gpu}{number}" for gpu in "ab" for number in range(3)))
OTHERS_TOO = seen("a 1 x", "a 2 x", "a 3 x", "b 4 x", "a 5 y", "a 6 y", "a 7 z")
CASES = [
    ("three jobs on one GPU", seen("a 1 x", "a 2 x", "a 3 y"), {"a"}, set()),
    ("one job again and again", seen("a 1 x", "a 1 x", "a 1 x"), set(), set()),
    ("two jobs", seen("a 1 x", "a 2 y"), set(), set()),
    ("a program that fails everywhere", seen("a 1 x", "a 2 x", "a 3 x", "b 4 x"), set(), {"a"}),
    ("others speak against it too", OTHERS_TOO, {"a"}, set()),
    ("a sweep with a bug over eight GPUs", SWEEP, set(), {f"g{number}" for number in range(8)}),
    ("two GPUs, each with programs of its own", TWO, {"a", "b"}, set()),
]


@each(CASES, "name", "found", "faulty", "cleared")
def test_xids_of_programs_speak_against_the_gpu_that_they_have_in_common(
    name: str, found: list[WatchedXid], faulty: set[str], cleared: set[str]
) -> None:
    result = suspects(found)
    assert (set(result.faults), set(result.cleared)) == (faulty, cleared)


def test_the_verdicts_are_those_of_nvidias_catalogue() -> None:
    wanted = {
        XidVerdict.PROGRAM: {8, 32, 43, 45, 68, 69, 92, 94, 137, 154},
        XidVerdict.WATCH: {13, 31},
        XidVerdict.RESET: {46, 62, 63, 109, 110, 119, 120, 136, 155, 156, 158},
        XidVerdict.LEAVE: {48, 64, 74, 79, 95, 140, 143},
    }
    assert {code: meaning_of(code).verdict for codes in wanted.values() for code in codes} == {
        code: verdict for verdict, codes in wanted.items() for code in codes
    }
    assert all(row.what and not row.what.endswith(".") for row in XIDS.values())
    assert suspects([]) == Suspects({}, set())
