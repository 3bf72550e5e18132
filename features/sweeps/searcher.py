"""Background thread that adds trials to searches, and ends them.

The next trial is computed once all trials have ended. The trials' rows are the only state, so that any check may be the
first after a start.
"""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NotRequired, TypedDict

from schedulearn.features.sweeps import search_rows as store
from schedulearn.features.sweeps.child import ask_child
from schedulearn.features.sweeps.models.configurations import TrialOutcome
from schedulearn.features.sweeps.table import RunRow, SweepRow
from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core.prices import price_of
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.store.db import Database

log = logging.getLogger(__name__)

_CHILD_S = 120.0
_LOOK_S = 2.0
_BUSY_S = 30.0  # after a child that failed
_MAX_FAILURES = 3


class _SearchAnswer(TypedDict):
    point: int | None
    gain: float | None
    why: str
    found: int | None


class _Configuration(TypedDict):
    gpu_type: NotRequired[str]
    required_gpus: int
    batch_size: NotRequired[int]


class _Design(TypedDict):
    """Design of a search, as `SearchSpec.design_of` returns it."""

    points: list[_Configuration]
    goal: str
    most: int
    seed: int


class Searcher:
    """Thread of searches. `close` ends it."""

    def __init__(self, db: Database, wake: Callable[[], None], prices: Mapping[str, float]) -> None:
        """`prices`: price of a GPU-hour by type of GPU."""
        self._db = db
        self._prices = prices
        self._wake = wake
        self._failures: dict[str, int] = {}
        self._thread = Background("searcher", self._run, first_s=_LOOK_S)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close(timeout=10)

    def _run(self) -> float:
        with self._db.read() as conn:
            due = [(sweep, runs) for sweep in store.open_searches(conn) if (runs := store.decided_runs(conn, sweep))]
        rest = _LOOK_S
        for sweep, runs in due:
            if not self._step(sweep, runs):
                rest = _BUSY_S
        return rest

    def _step(self, sweep: SweepRow, runs: Sequence[RunRow]) -> bool:
        told = self._ask(sweep.design, runs)
        if told is None:
            failures = self._failures[sweep.id] = self._failures.get(sweep.id, 0) + 1
            if failures < _MAX_FAILURES:
                return False
            told = _SearchAnswer(
                point=None, gain=None, found=None,
                why="The next trial could not be computed: see the service's log.",
            )  # fmt: skip
        self._failures.pop(sweep.id, None)
        points = sweep.design["points"]
        if told["point"] is not None:
            self._db.write(partial(store.add_trial, sweep.id, len(runs) + 1, points[told["point"]], told["gain"]))
        else:
            answer = {
                "why": told["why"], "gain": told["gain"],
                "found": None if told["found"] is None else points[told["found"]],
            }  # fmt: skip
            self._db.write(partial(store.close_search, sweep.id, len(runs), answer))
        self._wake()
        return True

    def _ask(self, design: _Design, runs: Sequence[RunRow]) -> _SearchAnswer | None:
        """Return the next trial, or None if the child process failed."""
        points = design["points"]
        tried = [[points.index(run.params), outcome_of(run.results)] for run in runs]
        question = {
            "points": [
                [point.get("gpu_type", ""), point["required_gpus"], point.get("batch_size", 0)] for point in points
            ],
            "prices": [_price(point, self._prices) for point in points],
            "tried": tried, "goal": design["goal"], "most": design["most"], "seed": design["seed"],
        }  # fmt: skip
        try:
            found: _SearchAnswer = json.loads(ask_child("search_process", question, _CHILD_S))
        except subprocess.CalledProcessError as error:
            log.error("the computation of the next trial failed: %s", error.stderr[-4000:])
            return None
        except subprocess.TimeoutExpired:
            log.error("the next trial took more than %g s to compute", _CHILD_S)
            return None
        return found


def check_prices(types: Sequence[str], prices: Mapping[str, float]) -> None:
    """Raise InvalidError if some types have a price and others have none.

    Their costs would have different units."""
    missing = sorted(name for name in types if price_of(prices, name) is None)
    if missing and len(missing) < len(types):
        raise InvalidError(
            f"the setting gpu_prices has no price of {', '.join(missing)}, but of other types: their costs can't be "
            "compared. Set the missing price, or search with the goal `time`"
        )


def _price(point: _Configuration, prices: Mapping[str, float]) -> float:
    """Return the price of a configuration's GPUs, in relative units."""
    price = price_of(prices, point["gpu_type"]) if "gpu_type" in point else None
    return point["required_gpus"] * (1.0 if price is None else price)


def outcome_of(results: Mapping[str, float] | None) -> TrialOutcome | None:
    """Return the outcome of a trial; None: it failed or goes on."""
    if not results or not (seconds := results.get("run_time")):
        return None
    cost = results.get("cost", results.get("gpu_hours", 0.0) * 3600)
    return TrialOutcome(seconds, max(cost, 1e-9) / seconds)
