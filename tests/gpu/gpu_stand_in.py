"""Trains with the SDK on a pretended GPU, whose kernels take the time that they are said to, and prints what was found.

The script's clock and the GPU's are apart, as they really are: a launch returns at once, and the queue is worked off
later. What can't be pretended (the kernels themselves) `scripts/gpu-check.sh` runs on a real one.
"""

import io
import json
import os
import sys
from contextlib import redirect_stderr

os.environ["SCHEDULEARN_JOB_ID"] = "j"

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import schedulearn.worker.torch as worker
from schedulearn.worker.torch.clock import GpuClock
from schedulearn.worker.torch.memory import GpuMemory
from schedulearn.worker.torch.optimizer import TorchInstruments

GIB = 1 << 30


class Gpu:
    """Stands in for torch.cuda: events, and memory."""

    def __init__(self) -> None:
        self.now = 0.0  # by the clock of the script
        self.free_at = 0.0  # when the queue is worked off
        self.capturing = False
        self.allocated, self.peak, self.reserved, self.total = 0, 0, 0, 16 * GIB

    def launch(self, seconds: float) -> None:
        self.free_at = max(self.free_at, self.now) + seconds

    def synchronize(self) -> None:
        self.now = max(self.now, self.free_at)

    def take(self, size: int) -> None:
        """A pass that needs `size` bytes for as long as it runs."""
        if self.allocated + size > self.total:
            self.peak = max(self.peak, self.total - GIB)
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size / GIB:.2f} GiB. GPU 0 has ...")
        self.peak = max(self.peak, self.allocated + size)

    def Event(self, enable_timing: bool) -> "Event":
        assert enable_timing
        return Event(self)

    def current_stream(self, device: object) -> str:
        return "stream"

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def memory_allocated(self, device: object) -> int:
        return self.allocated

    def max_memory_allocated(self, device: object) -> int:
        return self.peak

    def memory_reserved(self, device: object) -> int:
        return self.reserved

    def mem_get_info(self, device: object) -> tuple[int, int]:
        return self.total - self.reserved, self.total


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.at = float("inf")

    def record(self, stream: str) -> None:
        self.at = max(self.gpu.now, self.gpu.free_at)

    def query(self) -> bool:
        return self.gpu.now >= self.at

    def elapsed_time(self, other: "Event") -> float:
        return (other.at - self.at) * 1e3


def clock() -> dict[str, object]:
    """Twenty steps of 50 ms, of which 10 ms averaging, launched in 1 ms each; nobody waits for the GPU."""
    gpu = Gpu()
    timer = GpuClock(gpu)
    known, early = [], 0
    for step in range(20):
        timer.begin("gpu")
        gpu.launch(0.04)
        timer.computed("gpu")
        gpu.launch(0.01)
        timer.averaged("gpu")
        timer.end("gpu", (1, 2, step), 1)
        gpu.now += 0.001
        found = list(timer.known())
        early += len([each for each in found if each.kind[2] * 0.05 + 0.05 > gpu.now + 1e-9])
        known += found
    asleep = len(known)
    gpu.synchronize()
    known += timer.known()
    return {"known": [(each.kind[2], each.step_s, each.sync_s) for each in known], "early": early, "asleep": asleep}


def idle() -> list[float]:
    """A loader of 30 ms before each pass of 20 ms: the GPU idles, and that is part of the step."""
    gpu = Gpu()
    timer = GpuClock(gpu)
    found = []
    for _ in range(5):
        timer.begin("gpu")
        gpu.now += 0.03
        gpu.launch(0.02)
        timer.end("gpu", (1, 1, 8), 1)
        gpu.synchronize()
        found += [each.step_s for each in timer.known()]
    return found


def on(gpu: Gpu, run: worker.Run) -> TorchInstruments:
    instruments = run.instruments
    assert isinstance(instruments, TorchInstruments)
    instruments.clock, instruments.memory = GpuClock(gpu), GpuMemory(gpu)
    return instruments


DATA = TensorDataset(torch.randn(640, 8, generator=torch.Generator().manual_seed(1)), torch.arange(640) % 2)


def start(gpu: Gpu, batch: int = 32, most: int | None = None) -> tuple[worker.Run, nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Linear(8, 2)
    run = worker.Run(batch, most)
    optimizer = run.optimizer(torch.optim.SGD(model.parameters(), lr=0.1), model)
    on(gpu, run)
    return run, model, optimizer


def observed() -> list[dict[str, object]]:
    gpu = Gpu()
    run, model, optimizer = start(gpu)
    loader = run.loader(DATA)
    for _ in run.epochs(2, model=model):
        for number, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            gpu.launch(0.05)
            optimizer.step()
            gpu.now += 0.001
            if number % 5 == 4:
                gpu.synchronize()  # the script looks at its loss
    return run._measurements.take()["observations"]


def graph() -> dict[str, object]:
    """The third step is recorded, all others run what was recorded; then the job is told to stop."""
    gpu = Gpu()
    said = io.StringIO()
    run, model, optimizer = start(gpu, 32, 256)
    loader = run.loader(DATA)
    steps, code = 0, None
    with redirect_stderr(said):
        try:
            for _ in run.epochs(10, model=model):
                for x, y in loader:
                    if steps < 3:
                        gpu.capturing = steps == 2
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
                        gpu.capturing = False
                    gpu.launch(0.02)
                    gpu.synchronize()
                    steps += 1
                    run.stopping = steps == 15
        except SystemExit as end:
            code = end.code
    run.instruments.step_times((1, 1, 32), 1, 0.0)
    times = [each["iter_time"] for each in run._measurements.take()["observations"]]
    measured = run.instruments.meter.noise.measured
    return {"steps": steps, "code": code, "said": said.getvalue(), "times": times, "noise": measured}


def out_of_memory(sizes: list[int], held: int, each: int) -> str:
    """Passes of `sizes` samples in turn, of which the last does not fit; what is said of that, below the traceback."""
    gpu = Gpu()
    gpu.allocated = gpu.reserved = gpu.peak = held
    memory = GpuMemory(gpu)
    before, said = sys.excepthook, io.StringIO()
    memory.explain_uncaught()
    try:
        for samples in sizes:
            memory.begin("gpu", samples)
            gpu.take(samples * each)
            memory.end()
    except torch.OutOfMemoryError as error:
        with redirect_stderr(said):
            sys.excepthook(type(error), error, None)
    finally:
        sys.excepthook = before
    return said.getvalue()


def learnt(kind: str, with_sdk: bool) -> list[float]:
    """The losses of 25 steps."""
    torch.manual_seed(3)
    images = TensorDataset(torch.randn(40, 3, 8, 8), torch.arange(40) % 4)
    model: nn.Module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 4))
    if kind == "channels-last":
        model = model.to(memory_format=torch.channels_last)
    net = torch.compile(model, backend="aot_eager") if kind == "compile" else model
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=kind == "fused scaler")
    scaler = torch.amp.GradScaler("cpu", enabled="scaler" in kind)
    os.environ["SCHEDULEARN_JOB_ID"] = "j" if with_sdk else ""
    run = worker.Run(8)
    os.environ["SCHEDULEARN_JOB_ID"] = "j"
    optimizer = run.optimizer(optimizer, net)
    assert (run.instruments is not None) == with_sdk
    losses = []
    loader = run.loader(images)
    for _ in run.epochs(5, model=model):
        for x, y in loader:
            if kind == "channels-last":
                x = x.to(memory_format=torch.channels_last)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=kind == "bf16"):
                loss = F.cross_entropy(net(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
    if with_sdk:
        assert run.instruments.meter.noise.measured > 0, "nothing was measured"
    return losses


KINDS = ("plain", "bf16", "channels-last", "compile", "scaler", "fused scaler")
memory = {
    "by two sizes": out_of_memory([8, 16, 64], 2 * GIB, GIB // 4),
    "by one size": out_of_memory([16, 64], 2 * GIB, GIB // 4),
    "at once": out_of_memory([64], 2 * GIB, GIB // 4),
    "not even one": out_of_memory([1], 16 * GIB - 1, GIB),
}
unlike = {kind: (learnt(kind, True), learnt(kind, False)) for kind in KINDS}
TorchInstruments.gpu = property(lambda self: "gpu")  # type: ignore[assignment]
found = {"clock": clock(), "idle": idle(), "observed": observed(), "graph": graph(), "memory": memory, "learnt": unlike}
print("found " + json.dumps(found))
