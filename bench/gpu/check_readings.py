"""Our readings of a GPU under load against those of nvidia-smi; and that whoever reads holds no memory of it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.gpu import nvidia_smi
from bench.gpu.machine import Machine, begun, paths, started
from bench.gpu.report import Check, passed

LOAD_S, LOOKS = 30.0, 20
READS = """
import time, pynvml

def cuda():
    return " ".join(sorted({line.split()[-1] for line in open("/proc/self/maps") if "libcuda" in line})) or "none"

pynvml.nvmlInit()
before = cuda()
from schedulearn.metrics.probe.nvml import NvmlReader
reader = NvmlReader()
reader.inventory()
reader.sample()
print(before, cuda(), sep=";", flush=True)
for _ in range(300):
    reader.sample()
    time.sleep(0.2)
"""


def readings(machine: Machine) -> Iterator[Check]:
    """Under a steady load: each value in most of the looks, and the energy against the power over the whole time."""
    uuid = machine.needs_gpu()["uuid"]
    machine.needs_training()
    from schedulearn.metrics.probe.nvml import NvmlReader

    reader = NvmlReader()
    reader.inventory()
    with started("resnet50", "--batch", 32, "--seconds", LOAD_S + 60) as process:
        begun(process)
        time.sleep(5)  # until the clocks and the power have settled
        looks: dict[str, list[nvidia_smi.Difference]] = {}
        energy, watts = [], []
        for _ in range(LOOKS):
            ours = next(each for each in reader.sample().gpus if each.uuid == uuid)
            theirs = next(row for row in nvidia_smi.ask() if row["uuid"] == uuid)
            energy.append((time.monotonic(), ours.energy_j))
            watts.append(float(theirs["power.draw"]))
            for each in nvidia_smi.differences(theirs, ours):
                looks.setdefault(each.what, []).append(each)
            time.sleep(LOAD_S / LOOKS)
        pids = {each.pid for each in ours.processes or ()}
        yield passed("NVML shows the training's process", process.pid in pids, f"{sorted(pids)}", f"{process.pid}")
    for what, found in looks.items():
        middle = sorted(found, key=lambda each: each.relative)[len(found) // 2]
        agree = sum(each.within for each in found)
        measured = f"{agree} of {len(found)} looks; the middle one: {middle.ours:.6g} and {middle.theirs:.6g}"
        yield passed(f"{what}, NVML against nvidia-smi", 2 * agree > len(found), measured, "within 2 %")
    (first, begin), (last, end) = energy[0], energy[-1]
    if begin is None or end is None:
        yield Check("energy", "SKIPPED", "this GPU has no counter of energy")
        return
    ours_w, theirs_w = (end - begin) / (last - first), sum(watts) / len(watts)
    off = ours_w / theirs_w - 1
    yield passed(
        "energy over time, against power", abs(off) <= 0.02, f"{ours_w:.1f} W, {theirs_w:.1f} W ({off:+.1%})", "2 %"
    )


def holds_no_memory(machine: Machine) -> Iterator[Check]:
    """NVML needs no context: a process that reads holds no memory of the GPU, and loads no CUDA beyond what NVML itself
    does (since driver 580 it maps libcuda)."""
    machine.needs_gpu()
    from schedulearn.metrics.probe.nvml import NvmlReader

    # A process of its own: this one may have loaded CUDA with PyTorch.
    command = [sys.executable, "-c", READS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=paths()) as process:
        assert process.stdout is not None
        bare, _, reading = process.stdout.readline().strip().partition(";")
        mapped = Path(f"/proc/{process.pid}/maps").read_text()
        reader = NvmlReader()
        reader.inventory()
        on_gpu = {each.pid for gpu in reader.sample().gpus for each in gpu.processes or ()}
        process.kill()
    reads = "libnvidia-ml" in mapped
    yield passed("the reader reads by NVML", reads, "libnvidia-ml" if reads else "not loaded", "libnvidia-ml")
    yield passed("the reader has loaded no CUDA but NVML's own", reading == bare != "", reading, bare)
    held = "yes" if process.pid in on_gpu else "none"
    yield passed("the reader holds no memory of a GPU", process.pid not in on_gpu, held, "none")
