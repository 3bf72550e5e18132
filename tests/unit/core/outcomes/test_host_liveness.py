"""When a host is lost, and when it is back."""

import pytest
from builders import host_record

from schedulearn.scheduler.core.cluster_state import Host
from schedulearn.scheduler.core.outcomes.host_liveness import LivenessChange, Silence, liveness_changes
from schedulearn.scheduler.core.states import Parking


def host(lost_at: float | None = None, parking: str = "") -> Host:
    return host_record("h", lost_at=lost_at, parking=Parking(parking))


@pytest.mark.parametrize(
    ("row", "silent_since", "expected"),
    [
        (host(), None, []),
        (host(), 950.0, []),  # within its grace
        (host(), 900.0, [LivenessChange("h", 1000.0, "h has not answered for 100 s: no route")]),
        (host(lost_at=970.0), 900.0, []),  # told already
        (host(lost_at=970.0), None, [LivenessChange("h", None, "h answers again.")]),
        (host(parking="parked"), 900.0, []),  # it is off on purpose
        (host(parking="emptying"), 900.0, [LivenessChange("h", 1000.0, "h has not answered for 100 s: no route")]),
        (host(lost_at=970.0, parking="parked"), 900.0, [LivenessChange("h", None, "")]),
    ],
)
def test_a_host_is_lost_after_its_grace_and_back_when_it_answers(
    row: Host, silent_since: float | None, expected: list[LivenessChange]
) -> None:
    silent = {} if silent_since is None else {"h": Silence(silent_since, "no route")}
    assert liveness_changes([row], silent, 1000.0, 60.0) == expected
