"""A service that works for long: jobs come, policies change, something goes wrong every few seconds. What it takes of
memory, files and threads must not grow."""

from __future__ import annotations

import os
import statistics
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from real_faults import faults
from real_faults.invariants import Broken
from real_faults.runs import RealRun

FAULT_EVERY_S = 10.0
POLICY_EVERY_S = 30.0
JOBS_IN = (300, 1800.0)  # so many jobs in so many seconds
KILLS_UNTIL = 0.25
"""Of the time. Later the service is left alive: what grows is seen in a long life only."""
WARM_UP = 0.4
MAX = {"memory": 16 * 1024, "files": 6.0, "threads": 4.0}
"""Growth over what is measured, by its trend; memory in KiB. A fault that is at work at the end opens a few files."""
DEADLY = {faults.killed, faults.killed_at_a_side_effect, faults.killed_at_a_request}
AGING = {faults.clock_set}
"""Not here: what ran an hour is not what grows in an hour."""


class Use(NamedTuple):
    at: float
    memory: float
    files: float
    threads: float


def use_of(pid: int, at: float) -> Use:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return Use(at, float(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"]))


def growth(points: list[tuple[float, float]]) -> float:
    """Over all points, by the median of the slopes between any two of them: a few that are off do not matter."""
    slopes = [(b - a) / (later - earlier) for (earlier, a), (later, b) in combinations(points, 2) if later > earlier]
    return statistics.median(slopes) * (points[-1][0] - points[0][0]) if slopes else 0.0


class Soak:
    def __init__(self, run: RealRun, seconds: float) -> None:
        self._run = run
        self._seconds = seconds
        self.uses: list[Use] = []
        self.faults = 0

    def run(self) -> None:
        """Raises Broken with what happened before."""
        self._run.guard(self._work)

    def grown(self) -> dict[str, float]:
        """What was taken more at the end than after the warm-up."""
        return {key: growth([(use.at, getattr(use, key)) for use in self.uses]) for key in MAX}

    def _work(self) -> None:
        run, began = self._run, self._run.elapsed
        next_job = next_fault = next_policy = next_look = 0.0
        jobs, seconds = JOBS_IN
        while (now := run.elapsed - began) < self._seconds:
            if now >= next_job:
                run.submit(seconds=run.rng.uniform(2, 40))
                next_job += seconds / jobs
            if now >= next_fault:
                run.suffer(run.rng.choice(self._possible(now)))
                self.faults += 1
                next_fault = max(next_fault + FAULT_EVERY_S, now)
            if now >= next_policy:
                run.switch_policy()
                next_policy += POLICY_EVERY_S
            if now >= max(next_look, WARM_UP * self._seconds):
                self._look(now)
                next_look = now + self._seconds / 200
            run.cancel()
            run.pass_time(0.2)
        run.settle()
        self._check()

    def _possible(self, now: float) -> list[faults.Fault]:
        late = now > KILLS_UNTIL * self._seconds
        return [fault for fault in faults.possible(self._run) if fault not in AGING and not (late and fault in DEADLY)]

    def _look(self, now: float) -> None:
        process = self._run.service.process
        assert process is not None
        self.uses.append(use_of(process.pid, now))

    def _check(self) -> None:
        grown = self.grown()
        first, last = self.uses[0], self.uses[-1]
        self._run.note(f"{self.faults} faults, {self._run.kills} kills; grown by {grown}, from {first} to {last}")
        if over := {key: value for key, value in grown.items() if value > MAX[key]}:
            raise Broken(f"it grows: {over}, from {first} to {last}")
