"""Step times of real models, how well the step-time model knows them, and what two workers of one GPU do together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.gpu.machine import PATIENCE_S, Machine, found_in, started
from bench.gpu.report import Check, Skipped, passed
from bench.gpu.step_times import MOST_ERROR, Row, fitted, measure, write

SHARED_S = 20.0


def step_times(machine: Machine, names: Sequence[str], out: Path) -> Iterator[Check]:
    """One table a model, into `out`, the file that `schedulearn simulate --applications` reads."""
    machine.needs_training()
    from bench.gpu.models import WORKLOADS

    tables: dict[str, Sequence[Row]] = {}
    for name in names:
        rows: list[Row] = []
        tables[name] = rows
        try:
            for row in measure(name, machine.device):
                rows.append(row)  # those before an error count
        except RuntimeError as error:
            yield Check(f"step times of {name}", "failed", f"after {len(rows)} batch sizes: {error}"[:300])
        if len(rows) < 3:
            yield Check(f"step times of {name}", "SKIPPED", f"only {len(rows)} batch sizes were measured")
            continue
        _, error = fitted(rows)
        sizes = ", ".join(f"{row.samples}: {row.step_s * 1e3:.1f}" for row in rows)
        yield passed(
            f"step-time model of {name}", error <= MOST_ERROR, f"{error:.1%} RMS; ms by batch: {sizes}", "<= 10 %"
        )
    sharing: float | None = None
    try:
        sharing = shared(machine)
        yield Check("two workers on one GPU", "passed", f"{sharing:.2f} x the pace of one", "measured")
    except Skipped as reason:
        yield Check("two workers on one GPU", "SKIPPED", str(reason))
    write(out, tables, {name: WORKLOADS[name].total_steps for name in names}, sharing)


def shared(machine: Machine) -> float:
    """Steps a second of two workers together, each a process of its own, over those of one alone."""
    machine.needs_gpu()
    how = ("resnet50", "--batch", 64, "--steps", 100, "--seconds", SHARED_S)
    return _pace(how, 2) / _pace(how, 1)


def _pace(how: tuple[object, ...], workers: int) -> float:
    with ExitStack() as stack:
        processes = [stack.enter_context(started(*how, SCHEDULEARN_JOB_ID="")) for _ in range(workers)]
        outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
    found = [found_in(output) for output in outputs]
    return float(sum(each["steps"] / each["seconds"] for each in found))
