"""A thousand runs of the whole service in virtual time, each with its own faults. What must always hold is checked
after every step (tests/support/virtual/invariants.py); what fails is seen again by its seed alone:

    SCHEDULEARN_FAULT_SEEDS=17 pytest -n 0 tests/faults/test_seeds.py
    SCHEDULEARN_FAULT_SEEDS=1000-20000 pytest -n 0 tests/faults/test_seeds.py
"""

import os

import pytest
from virtual.runs import FaultRun

RUNS = 1000
_TOGETHER = 50


def _seeds() -> list[range]:
    given = os.environ.get("SCHEDULEARN_FAULT_SEEDS", f"0-{RUNS - 1}")
    first, _, last = given.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    return [seeds[i : i + _TOGETHER] for i in range(0, len(seeds), _TOGETHER)]


@pytest.mark.parametrize("seeds", _seeds(), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_nothing_breaks_an_invariant(seeds: range) -> None:
    print(f"seeds {seeds[0]} to {seeds[-1]}")
    for seed in seeds:
        FaultRun(seed).run()
