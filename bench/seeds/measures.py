"""What a table tells of the jobs that ran: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class GpuSpan(NamedTuple):
    """That a job held a GPU, from when to when."""

    gpu: str
    start: float
    end: float
    attempt: int = 1


class Run(NamedTuple):
    """A job that succeeded."""

    id: str
    submitted: float
    started: float
    finished: float
    spans: tuple[GpuSpan, ...] = ()
    restarts: int = 0

    @property
    def turnaround(self) -> float:
        return self.finished - self.submitted

    @property
    def seconds(self) -> float:
        return self.finished - self.started


def makespan(runs: Sequence[Run]) -> float:
    """From the first submission to the last end."""
    return max(run.finished for run in runs) - min(run.submitted for run in runs)


def mean_turnaround(runs: Sequence[Run]) -> float:
    return sum(run.turnaround for run in runs) / len(runs)


def held(runs: Iterable[Run], gpus: int, begin: float, end: float) -> float:
    """The share of all GPUs' time from `begin` to `end` in which at least one job held them."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        for span in run.spans:
            spans.setdefault(span.gpu, []).append((max(begin, span.start), min(end, span.end)))
    total = 0.0
    for of_gpu in spans.values():
        upto = begin
        for start, stop in sorted(of_gpu):
            total += max(0.0, stop - max(start, upto))
            upto = max(upto, stop)
    return total / (gpus * (end - begin)) if end > begin else 0.0


def held_over_makespan(runs: Sequence[Run], gpus: int) -> float:
    begin = min(run.submitted for run in runs)
    return held(runs, gpus, begin, begin + makespan(runs))


def workers_at(run: Run, at: float) -> int:
    """GPUs that a job held at a moment."""
    return len({span.gpu for span in run.spans if span.start <= at < span.end})


def change(ours: float, other: float) -> str:
    """In per cent of the other one: -21 %."""
    return f"{100 * (ours / other - 1):+.0f} %"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """In columns, numbers to the right."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    width = [max(len(row[column]) for row in cells) for column in range(len(head))]
    lines = []
    for index, row in enumerate(cells):
        first = row[0].ljust(width[0])
        lines.append("  " + "  ".join([first, *(c.rjust(w) for c, w in zip(row[1:], width[1:], strict=True))]).rstrip())
        if index == 0:
            lines.append("  " + "-" * (sum(width) + 2 * (len(width) - 1)))
    return "\n".join(lines)
