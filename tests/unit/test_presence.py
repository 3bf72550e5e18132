"""When a host is lost, and when it is back."""

from types import SimpleNamespace as Row

import pytest

from schedulearn.scheduler.presence import Presence, presences


def host(lost_at: float | None = None, parking: str = "") -> Row:
    return Row(id="h", lost_at=lost_at, parking=parking)


@pytest.mark.parametrize(
    ("row", "silent_since", "expected"),
    [
        (host(), None, []),
        (host(), 950.0, []),  # within its grace
        (host(), 900.0, [Presence("h", 1000.0, "h has not answered for 100 s: no route")]),
        (host(lost_at=970.0), 900.0, []),  # told already
        (host(lost_at=970.0), None, [Presence("h", None, "h answers again.")]),
        (host(parking="parked"), 900.0, []),  # it is off on purpose
        (host(parking="emptying"), 900.0, [Presence("h", 1000.0, "h has not answered for 100 s: no route")]),
        (host(lost_at=970.0, parking="parked"), 900.0, [Presence("h", None, "")]),
    ],
)
def test_presences(row: Row, silent_since: float | None, expected: list[Presence]) -> None:
    silent = {} if silent_since is None else {"h": (silent_since, "no route")}
    assert presences([row], silent, 1000.0, 60.0) == expected
