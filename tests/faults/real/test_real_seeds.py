"""Runs of the real service over real engines, each with its own faults, which its seed chooses. A few belong to
`make test-long` and `make test-docker`, sixty to `make test-faults`. What fails is tried again by its seed, over and
over if need be, as no two runs of real threads are the same:

    SCHEDULEARN_REAL_FAULT_SEEDS=17 pytest -n 0 tests/faults/real/test_real_seeds.py
    SCHEDULEARN_REAL_FAULT_SEEDS=100-160 pytest -n 2 tests/faults/real/test_real_seeds.py

Even seeds run containers, odd ones local processes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benches import IMAGE
from real_faults.runs import ADDRESS, RealRun

pytestmark = [pytest.mark.long, pytest.mark.process]

RUNS = 60 if os.environ.get("SCHEDULEARN_TEST_FAULTS") else 4


def _seeds() -> range:
    first, _, last = os.environ.get(ADDRESS, f"0-{RUNS - 1}").partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.docker
@pytest.mark.parametrize("seed", [seed for seed in _seeds() if seed % 2 == 0])
def test_no_fault_between_service_and_containers_breaks_an_invariant(seed: int, tmp_path: Path, engine: str) -> None:
    print(f"seed {seed}")
    with RealRun(seed, tmp_path / "run", engine, IMAGE) as run:
        run.run()


@pytest.mark.parametrize("seed", [seed for seed in _seeds() if seed % 2 == 1])
def test_no_fault_between_service_and_local_processes_breaks_an_invariant(seed: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    with RealRun(seed, tmp_path / "run") as run:
        run.run()
