"""Background thread that adds trials to searches by Optuna, and ends bad ones.

The rows of the trials are the only state, so that any check may be the first after a start. Optuna runs in a child
process, and only while there is a question.
"""

from __future__ import annotations

import json
import logging
import math
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypedDict

from schedulearn.features.sweeps import table, trial_rows
from schedulearn.features.sweeps.child import ask_child
from schedulearn.features.sweeps.spec import ADAPTIVE
from schedulearn.features.sweeps.table import SweepRow
from schedulearn.features.sweeps.trial_rows import Chosen, Judged, TrialRow
from schedulearn.scheduler.background import Background
from schedulearn.scheduler.core.states import JobState
from schedulearn.scheduler.reports.store import thinned
from schedulearn.scheduler.store.db import Database

log = logging.getLogger(__name__)

_CHILD_S = 120.0
_LOOK_S = 1.0
_IDLE_S = 3.0
"""Interval of checks while no sweep searches or prunes."""
_REST = 5.0
"""Pause after a question on pruning, in times of its duration: it takes at most a sixth of a processor."""
_BUSY_S = 30.0  # after a child that failed
_MAX_FAILURES = 3
_MAX_POINTS = 60  # of trials that are not judged


class _Decisions(TypedDict):
    chosen: list[dict[str, Any]]
    bad: dict[str, int]


class Tuner:
    """Thread of sweeps with `search` or `prune`. `close` ends it."""

    def __init__(self, db: Database, wake: Callable[[], None], clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._wake = wake
        self._clock = clock
        self._failures: dict[str, int] = {}
        self._judged_again: dict[str, float] = {}
        """Sweep -> time of the monotonic clock before which it is not judged again."""
        self._asked_again: dict[str, float] = {}
        """The same, before which nothing is asked: the last question failed."""
        self._thread = Background("tuner", self._run, first_s=_LOOK_S)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._thread.close(timeout=10)

    def _run(self) -> float:
        with self._db.read() as conn:
            due = trial_rows.sweeps_to_continue(conn)
        known = {sweep.id for sweep in due}
        for memory in (self._judged_again, self._asked_again, self._failures):
            for ended in memory.keys() - known:
                del memory[ended]
        rests = [self.step(sweep) for sweep in due if not self._thread.stopping]
        return min(rests, default=_IDLE_S)

    def step(self, sweep: SweepRow) -> float:
        """Continue one sweep; return the seconds until the next check."""
        with self._db.read() as conn:
            trials = trial_rows.trials_of(conn, sweep)
            progress = table.progress_of(conn, [sweep.id])[sweep.id]
        size = int(sweep.spec.get("trials", sweep.runs))
        count = trials_to_add(trials, size, progress.max_parallel) if sweep.open and sweep.search in ADAPTIVE else 0
        now = time.monotonic()
        judged = to_judge(trials) if sweep.prune and now >= self._judged_again.get(sweep.id, now) else {}
        if (not count and not judged) or now < self._asked_again.get(sweep.id, now):
            return _LOOK_S
        answer = self._ask(sweep, question_of(sweep, trials, count, judged))
        if answer is None:
            self._asked_again[sweep.id] = time.monotonic() + _BUSY_S
            return _LOOK_S
        if judged:
            self._judged_again[sweep.id] = now + _REST * (time.monotonic() - now)
        self._store(sweep, trials, size, answer, judged)
        return 0.0 if count else _LOOK_S

    def _store(
        self, sweep: SweepRow, trials: Sequence[TrialRow], size: int, answer: _Decisions, judged: Mapping[int, int]
    ) -> None:
        chosen = [Chosen(each["params"], each["attrs"] or None) for each in answer["chosen"]]
        decided = []
        for index in judged:
            trial, end = trials[index], answer["bad"].get(str(index))
            step = int((trial.points or [[0]])[-1][0])
            why = None if end is None else _reason(sweep, end)
            decided.append(Judged(trial.number, str(trial.job_id), step, why))
        self._db.write(partial(trial_rows.store_decisions, sweep.id, len(trials), size, chosen, decided, self._clock()))
        if chosen or answer["bad"]:
            self._wake()

    def _ask(self, sweep: SweepRow, question: Mapping[str, object]) -> _Decisions | None:
        """Return the decisions, or None if the child process failed. After some failures the search ends."""
        try:
            found: _Decisions = json.loads(ask_child("study_process", question, _CHILD_S))
        except subprocess.CalledProcessError as error:
            log.error("sweep %s: the question to Optuna failed: %s", sweep.id, error.stderr[-4000:])
        except subprocess.TimeoutExpired:
            log.error("sweep %s: Optuna took more than %g s to answer", sweep.id, _CHILD_S)
        else:
            self._failures.pop(sweep.id, None)
            return found
        failures = self._failures[sweep.id] = self._failures.get(sweep.id, 0) + 1
        if failures >= _MAX_FAILURES and sweep.open:
            message = "Optuna could not choose the next trial: see the service's log. Running trials go on."
            self._db.write(partial(trial_rows.end_search, sweep.id, message, self._clock()))
            self._failures.pop(sweep.id)
            self._wake()
        return None


def trials_to_add(trials: Sequence[TrialRow], size: int, max_parallel: int) -> int:
    """Return the number of trials to choose now: 1, or 0.

    A trial is chosen once no other one waits: it then knows more results, and the cluster has GPUs or quota left."""
    active = sum(trial.active for trial in trials)
    waits = any(trial.waits and trial.active for trial in trials)
    return int(len(trials) < size and active < max_parallel and not waits)


def to_judge(trials: Sequence[TrialRow]) -> dict[int, int]:
    """Return index -> last judged step, of running trials with a newer report."""
    found = {}
    for index, trial in enumerate(trials):
        if trial.state is JobState.RUNNING and trial.points:
            judged = -1 if trial.judged_step is None else trial.judged_step
            if trial.points[-1][0] > judged:
                found[index] = judged
    return found


def question_of(sweep: SweepRow, trials: Sequence[TrialRow], count: int, judged: Mapping[int, int]) -> dict[str, Any]:
    """Return the question to the child process."""
    spec = sweep.spec
    highest = spec["metric"]["goal"] == "max"
    return {
        "name": sweep.id, "sampler": sweep.search, "seed": spec.get("seed", 0), "highest": highest, "count": count,
        "parameters": spec["parameters"] if count else {},
        "trials": [_record(trial, spec["metric"]["name"], highest, full=index in judged)
                   for index, trial in enumerate(trials)],
        "pruning": spec.get("prune"), "judged": judged,
    }  # fmt: skip


def _record(trial: TrialRow, metric: str, highest: bool, *, full: bool) -> dict[str, Any]:
    outcome, value = _outcome(trial, metric, highest)
    points = {int(step): value for step, value, *_ in trial.points or () if math.isfinite(value)}
    ordered = sorted(map(list, points.items()))
    return {
        "params": trial.params, "outcome": outcome, "value": value, "attrs": trial.sampler or {},
        "points": ordered if full else thinned(ordered, _MAX_POINTS),
    }  # fmt: skip


def _outcome(trial: TrialRow, metric: str, highest: bool) -> tuple[str, float | None]:
    """Return the outcome of a trial and its value: the best report of the metric.

    After a job was deleted, the last report is stored in the results."""
    if trial.active:
        return "running", None
    best = trial.highest if highest else trial.lowest
    if trial.state is None and not trial.pruned and (best := (trial.results or {}).get(metric)) is not None:
        return "complete", best
    if trial.pruned:
        return "pruned", None
    if trial.state is JobState.SUCCEEDED:
        if best is not None and math.isfinite(best):
            return "complete", best
        if trial.results is None:  # its log may still be read
            return "running", None
    return "failed", None


def _reason(sweep: SweepRow, step: int) -> str:
    name = sweep.spec["metric"]["name"]
    return f"Pruned by {sweep.prune}: at step {step} its {name} was worse than that of other trials."
