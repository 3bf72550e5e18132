"""Runs of the whole service in virtual time, each with its own faults. What must always hold is checked after every
step (tests/support/virtual/invariants.py); what fails is seen again by its seed alone:

    pytest -n 0 tests/faults/test_seeds.py --seeds 17-17
    pytest -n 0 tests/faults/test_seeds.py --seeds 1000-20000

`--seeds N` is the first N; without it the tier says how many.
"""

import pytest
from tiers import tier_of
from virtual.runs import FaultRun

_TOGETHER = 5


def _seeds(config: pytest.Config) -> list[range]:
    first, dash, last = (config.getoption("--seeds") or str(tier_of(config).seeds)).partition("-")
    seeds = range(int(first), int(last) + 1) if dash else range(int(first))
    return [seeds[i : i + _TOGETHER] for i in range(0, len(seeds), _TOGETHER)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" in metafunc.fixturenames:
        metafunc.parametrize("seeds", _seeds(metafunc.config), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")


@pytest.mark.alone
def test_nothing_breaks_an_invariant(seeds: range) -> None:
    print(f"seeds {seeds[0]} to {seeds[-1]}")
    for seed in seeds:
        FaultRun(seed).run()
