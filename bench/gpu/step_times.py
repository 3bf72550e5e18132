"""Step times of the models over batch sizes, the step-time model's error on them, and the simulator's file of both."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, fit, rms_relative_error

MOST_ERROR = 0.10
WARM_UP, BLOCKS = 3, 7


class Row(NamedTuple):
    """As in the simulator's file: one pass."""

    hosts: int
    gpus: int
    samples: int
    step_s: float
    sync_s: float


def measure(model: str, device: str, seconds: float = 2.0) -> Iterator[Row]:
    """One row a batch size, until the memory runs out: the median of blocks that take `seconds` together. On a GPU by
    its own clock."""
    try:
        yield from _measure(model, device, seconds)
    finally:
        import torch

        gc.collect()
        torch.cuda.empty_cache()  # what runs next in other processes needs the memory


def _measure(model: str, device: str, seconds: float) -> Iterator[Row]:
    import torch

    from bench.gpu.models import WORKLOADS
    from bench.gpu.models import loss as loss_of
    from schedulearn.worker.torch.memory import is_out_of_memory

    workload = WORKLOADS[model]
    if device != "cuda":
        torch.set_num_threads(1)
    torch.manual_seed(0)
    net = workload.make().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    torch.backends.cuda.enable_cudnn_sdp(False)  # cuDNN's attention broke on an H200 with PyTorch 2.11
    cast = torch.autocast(device, torch.bfloat16, enabled=device == "cuda")
    for samples in workload.batches:
        try:
            x, y = (part.to(device) for part in workload.data(samples))

            def step(x: Any = x, y: Any = y) -> None:
                optimizer.zero_grad()
                with cast:
                    loss = loss_of(net(x), y)
                loss.backward()
                optimizer.step()

            for _ in range(WARM_UP):
                step()
            once = _timed(step, 1, device)
            repeats = max(1, min(200, int(seconds / BLOCKS / max(once, 1e-6))))
            yield Row(1, 1, samples, statistics.median(_timed(step, repeats, device) for _ in range(BLOCKS)), 0.0)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return


def _timed(step: Any, repeats: int, device: str) -> float:
    """Seconds of one step."""
    import torch

    if device != "cuda":
        began = time.perf_counter()
        for _ in range(repeats):
            step()
        return (time.perf_counter() - began) / repeats
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    for _ in range(repeats):
        step()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3 / repeats


def fitted(rows: Sequence[Row]) -> tuple[StepTimeModel, float]:
    """The model, and its root mean square error relative to what was measured."""
    hosts, gpus, samples, step, sync = np.array(rows, dtype=float).T
    times = StepTimes(hosts, gpus, samples, np.maximum(step - sync, 1e-6), step)
    model = fit(times)
    return model, rms_relative_error(model, times)


def application(rows: Sequence[Row], total_steps: int) -> dict[str, Any]:
    """An entry of a file for `schedulearn simulate --applications`. The gradient noise of a whole training is not
    measured here: batches count as those of a noise scale of four times the first batch."""
    sizes = [row.samples for row in rows]
    first = sizes[0]
    model, error = fitted(rows)
    return {
        "init_batch_size": first, "max_batch_size": 16 * sizes[-1], "local_batch_size": [first, sizes[-1]],
        "step_times": [[*row[:3], round(row.step_s, 7), round(row.sync_s, 7)] for row in rows],
        "throughput": asdict(model), "step_time_rms_relative_error": round(error, 5),
        "noise_scale": [[0.0, 4 * first], [1.0, 4 * first]], "total_progress_steps": total_steps,
    }  # fmt: skip


def write(path: Path, tables: Mapping[str, Sequence[Row]], totals: Mapping[str, int], sharing: float | None) -> None:
    """`sharing`: what two workers of one GPU do together, against one that has it to itself; None: not measured."""
    content: dict[str, Any] = {name: application(rows, totals[name]) for name, rows in tables.items() if len(rows) > 1}
    if sharing is not None:
        content["conditions"] = {"sharing": round(sharing, 4)}
    path.write_text(json.dumps(content, indent=1) + "\n")
