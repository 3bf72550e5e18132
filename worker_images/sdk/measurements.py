"""Measurements and metrics since the last report.

They are bounded, and safe to use from two threads.
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any, Tuple

Kind = Tuple[int, int, int]  # hosts, GPUs, samples per GPU in one micro-step

MAX_KINDS = 64
MAX_PASSES = 256  # of a kind
MIN_PASSES = 2  # of a kind, before they are reported: a single one may have been a pause
MAX_POINTS = 400  # over all metrics


class Measurements:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passes: dict[Kind, list[tuple[float, float]]] = {}
        self._metrics: list[dict[str, Any]] = []
        self._taken: tuple[dict[Kind, list[tuple[float, float]]], list[dict[str, Any]]] = ({}, [])

    def add_pass(self, kind: Kind, grad_time: float, iter_time: float) -> None:
        """Add a micro-step that synchronized.

        It took `iter_time` seconds in all, `grad_time` without waiting for other workers."""
        with self._lock:
            if kind in self._passes or len(self._passes) < MAX_KINDS:
                passes = self._passes.setdefault(kind, [])
                passes.append((grad_time, iter_time))
                del passes[:-MAX_PASSES]

    def add_metric(self, name: str, step: int, value: float) -> None:
        with self._lock:
            self._metrics.append({"name": name, "step": step, "value": value, "at": time.time()})
            if len(self._metrics) > MAX_POINTS:
                # Drop every second value of each name: the curve gets coarser, and keeps its beginning.
                self._metrics = _every_second(self._metrics)

    def take(self) -> dict[str, Any]:
        """Return `observations` and `metrics` for a report.

        If the report can't be sent, `put_back` adds them to the next one."""
        with self._lock:
            ready = {kind: found for kind, found in self._passes.items() if len(found) >= MIN_PASSES}
            self._taken = (ready, self._metrics)
            self._passes = {kind: found for kind, found in self._passes.items() if kind not in ready}
            self._metrics = []
            passes, metrics = self._taken
        return {
            "observations": [
                {
                    "num_nodes": kind[0],
                    "num_gpus": kind[1],
                    "atomic_batch": kind[2],
                    "passes": len(found),
                    # The median: a pause in one micro-step is not the speed of all.
                    "grad_time": statistics.median(grad for grad, _ in found),
                    "iter_time": statistics.median(both for _, both in found),
                }
                for kind, found in passes.items()
            ],
            "metrics": list(metrics),
        }

    def put_back(self) -> None:
        with self._lock:
            passes, metrics = self._taken
            self._taken = ({}, [])
            for kind, found in passes.items():
                if kind in self._passes or len(self._passes) < MAX_KINDS:
                    self._passes[kind] = (found + self._passes.get(kind, []))[-MAX_PASSES:]
            self._metrics = metrics + self._metrics
            if len(self._metrics) > MAX_POINTS:
                self._metrics = _every_second(self._metrics)


def _every_second(metrics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    seen: dict[str, int] = {}
    kept = []
    for metric in metrics:
        index = seen[metric["name"]] = seen.get(metric["name"], -1) + 1
        if index % 2 == 0:
            kept.append(metric)
    return kept
