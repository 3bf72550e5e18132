"""Half an hour of work with a fault every ten seconds, over 8 simulated GPUs. `make test-faults` runs it;
SCHEDULEARN_TEST_SOAK is another length in seconds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benches import IMAGE
from real_faults.runs import RealRun
from real_faults.soak import Soak, growth

pytestmark = [pytest.mark.long, pytest.mark.process]

SECONDS = float(os.environ.get("SCHEDULEARN_TEST_SOAK", "1800"))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("runtime", ["process", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_service_that_works_for_long_does_not_grow(
    runtime: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not os.environ.get("SCHEDULEARN_TEST_FAULTS"):
        pytest.skip("NOT tested here: half an hour of faults for each runtime. Run `make test-faults`")
    engine = request.getfixturevalue("engine") if runtime == "docker" else None
    with RealRun(7, tmp_path / "run", engine, IMAGE if engine else "plain", gpus=8) as run:
        soak = Soak(run, SECONDS)
        soak.run()
        print("\n".join(run.log))
        assert soak.faults >= SECONDS / 30


def test_growth_is_told_from_noise() -> None:
    flat = [(float(at), 100.0 + at % 7) for at in range(100)]
    assert abs(growth(flat)) < 1
    assert growth([(at, value + 0.5 * at) for at, value in flat]) == pytest.approx(49.5, abs=2)
