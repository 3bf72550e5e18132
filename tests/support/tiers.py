"""What each test needs, which tier it is in, and which must not run beside each other. docs/contributing.md.

A test says what it needs by its fixtures or by a marker, and its tier follows from that. What belongs to no tier but
`all` for its length alone is marked `long`.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from networks import can_have_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling


@dataclass(frozen=True)
class Tier:
    """`without`: the markers whose tests it leaves out. `seeds`: how many runs with faults in virtual time.
    `case_seconds`: of processor time that a case may take."""

    without: frozenset[str]
    seeds: int
    case_seconds: float | None = None


REAL = frozenset({"process", "docker", "horovod", "browser"})
TIERS = {
    "check": Tier(REAL | {"slow", "long"}, seeds=200, case_seconds=5.0),
    "test": Tier(frozenset({"long"}), seeds=300),
    "all": Tier(frozenset(), seeds=1000),
}

NEEDS = {
    "docker_url": "docker",
    "engine_url": "docker",
    "horovod_env": "horovod",
    "environment_of": "horovod",
    "browser": "browser",
    "service": "process",
    "start_service": "process",
    "postgres": "postgres",
}
"""Fixture to marker."""

FIRST = ("page", "training")
"""The longest of what tests share."""

_SHARES = "SCHEDULEARN_TEST_SHARES"
"""The folder where each worker of xdist writes down what its tests share."""

_running: list[pytest.Item] = []


def tier_of(config: pytest.Config) -> Tier:
    return TIERS[config.getoption("--tier")]


def markers(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers()}


def shares(item: pytest.Item) -> str:
    """What a test has in common with others, so that they run one after another, in one worker.

    Tests of the page share a browser and services. Where they can't have a network of their own (`own_network`), no
    containers run beside them. Training takes all processors that it can get: two at a time would only wait for each
    other. All others share at most what their module has.
    """
    has = markers(item)
    if "browser" in has or ("docker" in has and not can_have_its_own()):
        return "page"
    if "horovod" in has:
        return "training"
    return item.nodeid if "alone" in has else item.nodeid.partition("::")[0]


def turn(item: pytest.Item) -> tuple[int, int]:
    """Where it stands in the order of all.

    The longest begin at once. Modules are mixed: folders hold what computes, or what waits for containers, and each is
    best beside the other. What any worker may take is last, so that all workers end together.
    """
    shared = shares(item)
    place = FIRST.index(shared) if shared in FIRST else len(FIRST) + ("alone" in markers(item))
    return place, crc32(shared.encode())


def needs_a_process() -> None:
    """Fails the test that runs now where it starts what it does not say that it needs."""
    if _running and not markers(_running[-1]) & REAL:
        pytest.fail("this test starts a process of the product: mark it with @pytest.mark.process")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("schedulearn")
    group.addoption("--tier", choices=tuple(TIERS), default="all", help="which tests (default: all that are named)")
    group.addoption("--postgres", action="store_true", help="also what runs on PostgreSQL")
    group.addoption("--seeds", default="", metavar="N | FIRST-LAST", help="the runs with faults in virtual time")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    without = tier_of(config).without | (set() if config.getoption("--postgres") else {"postgres"})
    left_out = []
    for item in items:
        for name in sorted({NEEDS[name] for name in getattr(item, "fixturenames", ()) if name in NEEDS}):
            item.add_marker(name)
        item.user_properties.append(("needs", " ".join(sorted(markers(item) & (REAL | {"slow", "long", "postgres"})))))
        if markers(item) & without:
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(map(id, left_out))
        items[:] = [item for item in items if id(item) not in gone]
    if os.environ.get("PYTEST_XDIST_WORKER"):
        items.sort(key=turn)
        path = Path(os.environ[_SHARES], os.environ["PYTEST_XDIST_WORKER"])
        path.write_text(json.dumps({item.nodeid: shares(item) for item in items}))


def pytest_configure(config: pytest.Config) -> None:
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        folder = tempfile.TemporaryDirectory(prefix="shares-")
        config.add_cleanup(folder.cleanup)
        os.environ[_SHARES] = folder.name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    # By hand: xdist 3.8 finds no group of a test under pytest 9.2. Only workers collect, so they write down the groups.
    from xdist.scheduler import LoadScopeScheduling

    class ByWhatTheyShare(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _groups()[nodeid]

    return ByWhatTheyShare(config, log)


@cache
def _groups() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in Path(os.environ[_SHARES]).iterdir():
        found |= json.loads(path.read_text())
    return found


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.pop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    began = _processor_time()
    result = yield
    limit = tier_of(item.config).case_seconds
    if limit is not None and (took := _processor_time() - began) > limit:
        pytest.fail(f"{took:.1f} s of processor time: over {limit:.0f} s a case is marked `slow`, or made cheaper")
    return result


def _processor_time() -> float:
    """In seconds, of this process and of what it waited for."""
    return sum(os.times()[:4])
