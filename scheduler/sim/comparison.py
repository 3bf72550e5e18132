"""Comparison of policies on one trace, in parallel processes, as one document."""

from __future__ import annotations

import math
import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

from schedulearn.scheduler.core.model import HostView
from schedulearn.scheduler.policies.plugins import load_policies
from schedulearn.scheduler.sim.arguments import Contender, applications_of
from schedulearn.scheduler.sim.conditions import Conditions
from schedulearn.scheduler.sim.result import COLUMNS, LATE_COLUMN, Summary, summarize
from schedulearn.scheduler.sim.run import JobResult, Run
from schedulearn.scheduler.sim.simulator import Simulation
from schedulearn.scheduler.sim.workload import TraceJob

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

Progress = Callable[[int, int, int], None]
"""(index of the contender, jobs that ended, all jobs)"""
LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class Played:
    """Result of one policy on the trace."""

    contender: Contender
    run: Run
    summary: Summary
    seconds: float
    """How long the simulation took."""


@dataclass(frozen=True)
class Comparison:
    """Input of a comparison, without the policies."""

    source: str
    """Where the jobs are from, as the user wrote it."""
    jobs: Sequence[TraceJob]
    hosts: Sequence[HostView]
    conditions: Conditions
    own_policies: Sequence[str] = ()
    """Files of further policies, `path.py:Class`: each process loads them."""
    past: Sequence[TraceJob] = ()
    """Jobs that each policy runs first: what was learned of their applications is known from the start."""

    def play(self, contender: Contender, progress: Callable[[int, int], None] = lambda done, total: None) -> Played:
        began = time.perf_counter()
        total = len(self.past) + len(self.jobs)
        before = Simulation(
            contender.make(), self.past, self.hosts, self.conditions, progress=lambda done, _: progress(done, total)
        )
        before.run()
        run = Simulation(
            contender.make(), self.jobs, self.hosts, self.conditions, memory=before.memory,
            progress=lambda done, _: progress(len(self.past) + done, total),
        ).run()  # fmt: skip
        return Played(contender, run, summarize(run), time.perf_counter() - began)

    def play_all(
        self, contenders: Sequence[Contender], processes: int, progress: Progress = lambda which, done, total: None
    ) -> list[Played]:
        """Return the results in the order of `contenders`. Raises what a policy raised."""
        if processes <= 1 or len(contenders) <= 1:
            return [self.play(contender, partial(progress, which)) for which, contender in enumerate(contenders)]
        context = multiprocessing.get_context("spawn")
        queue: SimpleQueue[tuple[int, int, int]] = context.SimpleQueue()
        with ProcessPoolExecutor(processes, context, _begin, (self, queue)) as pool:
            futures = [pool.submit(_play, which, contender) for which, contender in enumerate(contenders)]
            try:
                _watch(futures, queue, progress)
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in multiprocessing.active_children():
                    process.terminate()
                raise

    def to_json(self, played: Sequence[Played]) -> dict[str, object]:
        """The document of `schedulearn simulate --json`; docs/simulator.md describes its keys."""
        document: dict[str, object] = {
            "trace": {
                "source": self.source,
                "jobs": len(self.jobs),
                "past": len(self.past),
                "applications": applications_of(self.jobs),
            },
            "hosts": [
                {"id": h.id, "gpus": h.gpus, "gpu_type": h.gpu_type, "speed": self.conditions.speeds.get(h.gpu_type, 1)}
                for h in self.hosts
            ],
            "conditions": asdict(self.conditions),
            "policies": [
                {
                    "policy": each.contender.label,
                    "algorithm": each.contender.algorithm,
                    "metric": each.contender.metric,
                    "params": dict(each.contender.params),
                    "summary": each.summary.to_json(),
                    "simulated_in": each.seconds,
                    "jobs": [_outcome(outcome) for outcome in each.run.outcomes],
                }
                for each in played
            ],
        }
        return {key: _finite(value) for key, value in document.items()}


_comparison: Comparison
_queue: SimpleQueue[tuple[int, int, int]]


def _begin(comparison: Comparison, queue: SimpleQueue[tuple[int, int, int]]) -> None:
    """Prepare a process, before any simulation."""
    global _comparison, _queue
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches all processes: the command reports it, once
    _comparison, _queue = comparison, queue
    load_policies(comparison.own_policies)


def _play(which: int, contender: Contender) -> Played:
    return _comparison.play(contender, lambda done, total: _queue.put((which, done, total)))


def _watch(futures: Sequence[Future[Played]], queue: SimpleQueue[tuple[int, int, int]], progress: Progress) -> None:
    """Wait until all have ended, or one has failed; pass on the progress of the processes meanwhile."""
    pending: Sequence[Future[Played]] | set[Future[Played]] = futures
    while pending and not any(future.done() and future.exception() for future in futures):
        pending = wait(pending, LOOK_EVERY_S).not_done
        while not queue.empty():
            progress(*queue.get())


def _outcome(outcome: JobResult) -> dict[str, object]:
    job = outcome.job
    return {
        "id": job.id,
        "application": job.application.name,
        "required_gpus": job.required_gpus,
        "elastic": job.elastic,
        "submitted_at": job.submitted_at,
        "started_at": outcome.started_at,
        "ended_at": outcome.ended_at,
        "jct": outcome.ended_at - job.submitted_at,
        "gpu_seconds": outcome.gpu_seconds,
        "restarts": outcome.restarts,
        "stall_seconds": outcome.stalls,
    }


def _finite(value: object) -> object:
    """Replace infinite times of what never happened by None, since JSON has no infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list) else value


def table(played: Sequence[Played]) -> tuple[list[str], list[list[tuple[str, bool]]]]:
    """Return (headings, rows of (text, whether it is the best of its column)).

    Lower is better in all columns. A row is best nowhere if another one left fewer jobs unfinished: its means are over
    fewer jobs.
    """
    fewest = min(each.summary.unfinished for each in played)
    headings = ["policy", "mean vs first"]
    if any(each.summary.unfinished for each in played):
        headings.append("never ended")
    rows = []
    first = played[0].summary.mean_jct
    columns = [*COLUMNS, *([LATE_COLUMN] if played[0].summary.deadlines else [])]
    headings[1:1] = [heading for _, heading, _ in columns]
    texts = {name: [format(getattr(each.summary, name), form) for each in played] for name, _, form in columns}
    for index, each in enumerate(played):
        row = [(each.contender.label, False)]
        for name, _, form in columns:
            able = [getattr(e.summary, name) for e in played if e.summary.unfinished == fewest]
            lowest = format(min(able), form)
            best = each.summary.unfinished == fewest and texts[name][index] == lowest
            row.append((texts[name][index], best and len(set(texts[name])) > 1))
        row.append((f"{each.summary.mean_jct / first:.2f}" if first else "-", False))
        if len(headings) > len(row):
            row.append((str(each.summary.unfinished), False))
        rows.append(row)
    return headings, rows
