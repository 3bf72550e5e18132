"""What the driver does when programs fail, are killed, or can't be looked at; and where the GPUs are in the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isroutine
from pathlib import Path
from typing import Any

from bench.gpu import nvidia_smi
from bench.gpu.cuda import FAULTS
from bench.gpu.machine import ROOT, Machine, begun, found_in, paths, run, running
from bench.gpu.report import Check, Skipped, passed
from schedulearn.metrics.probe import watchdog
from schedulearn.metrics.probe.readings import GpuReading, Inventory, Sample, from_line

CUDA = ROOT / "bench/gpu/cuda.py"
RANK = ROOT / "bench/gpu/rank.py"
XIDS_S = 10.0
"""So long after an error its Xids are waited for."""
SAMPLES = 100
SAMPLE_S = 0.1
"""Of the second between two samples so much may be NVML's."""
NOBODY = 65534
KINDS = {"PIX": {"internal", "single"}, "PXB": {"multiple"}, "PHB": {"hostbridge"}, "NODE": {"node"}, "SYS": {"system"}}
"""As `nvidia-smi topo -m` and as NVML call what two GPUs share."""


def xids(machine: Machine) -> Iterator[Check]:
    """Errors of a program on each GPU: told as Xids, and as the program's own, so that the GPU stays in service."""
    machine.needs_gpu()
    from schedulearn.metrics.probe.nvml import NvmlReader
    from schedulearn.scheduler.core.outcomes.xids import fault_by

    reader = NvmlReader()
    for gpu in [each for each in reader.inventory().gpus if not each.parent]:
        for kind in FAULTS:
            before = _counts(reader.sample(), gpu.uuid)
            done = run([sys.executable, str(CUDA), kind], CUDA_VISIBLE_DEVICES=gpu.uuid)
            end, new = time.monotonic() + XIDS_S, dict[int, int]()
            while time.monotonic() < end and not (new and {43, 45} & new.keys()):
                time.sleep(0.2)
                now = _counts(reader.sample(), gpu.uuid)
                new = {code: times - before.get(code, 0) for code, times in now.items() if times > before.get(code, 0)}
            events = [xid for each in reader.sample().gpus if each.uuid == gpu.uuid for xid in each.xids]
            stays = not fault_by(events)
            told = ", ".join(f"{code} x {times}" for code, times in new.items()) or "none"
            measured = f"CUDA's {done.stdout.strip() or done.stderr.strip()[-100:]}; Xids {told}; "
            holds = bool({13, 31} & new.keys()) and stays
            yield passed(
                f"Xids of a wrong {kind}, GPU {gpu.index}", holds,
                measured + ("stays in service" if stays else "out of service"), "13 or 31; stays in service",
            )  # fmt: skip


def _counts(sample: Sample, uuid: str) -> dict[int, int]:
    return {xid.code: xid.times for gpu in sample.gpus if gpu.uuid == uuid for xid in gpu.xids}


def latency(machine: Machine) -> Iterator[Check]:
    """Each call of NVML that a sample makes, all health included: the slowest ones, and a whole sample."""
    machine.needs_gpu()
    import pynvml

    from schedulearn.metrics.probe import nvml

    calls: dict[str, list[float]] = {}
    samples: list[float] = []

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object) -> Any:
            began = time.perf_counter()
            try:
                return function(*arguments)
            finally:
                calls.setdefault(name, []).append(time.perf_counter() - began)

        return call

    functions = {name: each for name, each in vars(pynvml).items() if name.startswith("nvml") and isroutine(each)}
    health, nvml.HEALTH_S = nvml.HEALTH_S, 0.0
    for name, function in functions.items():
        setattr(pynvml, name, timed(name, function))
    try:
        reader = nvml.NvmlReader()
        reader.inventory()
        for _ in range(SAMPLES):
            began = time.perf_counter()
            reader.sample()
            samples.append(time.perf_counter() - began)
        reader.inventory()
        reader.close()
    finally:
        nvml.HEALTH_S = health
        for name, function in functions.items():
            setattr(pynvml, name, function)
    slowest = sorted(calls, key=lambda name: -_percentile(calls[name], 99))[:8]
    told = "; ".join(f"{name.removeprefix('nvml')} {_p50_p99(calls[name])}" for name in slowest)
    yield Check("calls of NVML, slowest p99 first", "passed", f"ms, p50/p99: {told}", "measured")
    yield passed(
        "a sample of all GPUs, with their health", _percentile(samples, 99) <= SAMPLE_S,
        f"{_p50_p99(samples)} ms, p50/p99", f"p99 <= {SAMPLE_S * 1e3:.0f} ms",
    )  # fmt: skip


def _percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _p50_p99(seconds: list[float]) -> str:
    return f"{_percentile(seconds, 50) * 1e3:.2f}/{_percentile(seconds, 99) * 1e3:.2f}"


@contextmanager
def held(uuid: str, size: int) -> Iterator[subprocess.Popen[str]]:
    """A process that is no job's, and holds so many bytes of a GPU."""
    with running(CUDA, "hold", size, CUDA_VISIBLE_DEVICES=uuid) as process:
        begun(process)
        yield process


def released(machine: Machine) -> Iterator[Check]:
    """After kill -9, each 10 ms: how long the memory of a process stays, and how long NVML lists the process."""
    gpu = machine.needs_gpu()
    from schedulearn.metrics.probe.nvml import NvmlReader
    from schedulearn.scheduler.core.outcomes.gpu_holders import SETTLE_S

    reader = NvmlReader()
    reader.inventory()

    def look() -> GpuReading:
        return next(each for each in reader.sample().gpus if each.uuid == gpu["uuid"])

    idle = look().memory_bytes or 0.0
    size = int(0.5 * (float(gpu["memory.total"]) * (1 << 20) - idle))
    with held(gpu["uuid"], size) as process:
        full = look().memory_bytes or 0.0
        began = time.monotonic()
        process.kill()
        memory_s = listed_s = None
        while (memory_s is None or listed_s is None) and time.monotonic() - began < 2 * SETTLE_S:
            now, reading = time.monotonic() - began, look()
            if memory_s is None and (reading.memory_bytes or 0.0) < idle + 0.02 * size:
                memory_s = now
            if listed_s is None and process.pid not in {each.pid for each in reading.processes or ()}:
                listed_s = now
            process.poll()  # else it stays as a zombie
            time.sleep(0.01)
    free, gone = ("never" if value is None else f"after {value:.2f} s" for value in (memory_s, listed_s))
    measured = f"{(full - idle) / 1e9:.1f} GB: free {free}, not listed {gone}"
    yield passed("memory after kill -9", memory_s is not None and memory_s < SETTLE_S, measured, f"< {SETTLE_S:.0f} s")


def lookers(machine: Machine) -> Iterator[Check]:
    """Who holds a GPU is seen, by its process or by its memory, from wherever the probe may run."""
    gpu = machine.needs_gpu()
    from schedulearn.scheduler.core.outcomes.gpu_holders import holder

    total = int(float(gpu["memory.total"]) * (1 << 20))
    ways: dict[str, tuple[list[str], int | None]] = {
        "as it is": ([], None),
        "as nobody": ([], NOBODY),
        "in a PID namespace of its own": (["unshare", "--pid", "--fork", "--mount-proc"], None),
    }
    with held(gpu["uuid"], total // 4) as process:
        for name, (prefix, user) in ways.items():
            if os.geteuid() and (prefix or user is not None):
                yield Check(f"a holder, looked at {name}", "SKIPPED", "needs root")
                continue
            try:
                reading = next(each for each in _probed(prefix, user).gpus if each.uuid == gpu["uuid"])
            except PermissionError:
                yield Check(f"a holder, looked at {name}", "SKIPPED", f"{sys.executable} is not for everybody")
                continue
            except (StopIteration, OSError, ValueError) as error:
                yield Check(f"a holder, looked at {name}", "failed", f"the probe tells nothing: {error!r}")
                continue
            found = holder(reading, total, lambda _: False, held=False)
            pids = None if reading.processes is None else [(each.pid, each.name) for each in reading.processes]
            measured = f"process {process.pid}; NVML lists {pids}; told: {found.who if found else 'not known'}"
            yield passed(f"a holder, looked at {name}", found is not None and bool(found.who), measured, "occupied")


def _probed(prefix: list[str], user: int | None) -> Sample:
    """The first sample that has values, by a probe that runs so."""
    command = [*prefix, *watchdog.command("child", {}, machine=False)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=paths(), cwd="/", user=user,
        extra_groups=None if user is None else [],
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                reading = None if line.startswith(b"?") else from_line(line)
                if isinstance(reading, Sample) and reading.gpus:
                    return reading
        finally:
            process.kill()
        assert process.stderr is not None
        raise ValueError(process.stderr.read().decode(errors="replace").strip()[-200:] or "it ended")


def mismatch(machine: Machine) -> Iterator[Check]:
    """A driver that was updated without a reboot, by a copy of its library with another version in it."""
    version = machine.needs_gpu()["driver_version"]
    found = run([sys.executable, "-c", "import pynvml; pynvml.nvmlInit(); print(open('/proc/self/maps').read())"])
    mapped = [Path(line.split()[-1]) for line in found.stdout.splitlines() if "libnvidia-ml" in line]
    if not mapped:
        raise Skipped("the driver's library could not be found")
    content = mapped[0].read_bytes()
    other = version[:-1] + ("1" if version[-1] != "1" else "2")
    if version.encode() not in content:
        raise Skipped(f"{mapped[0]} does not have its version, {version}, in plain text")
    with tempfile.TemporaryDirectory(prefix="schedulearn-gpu-check-") as folder:
        (Path(folder) / "libnvidia-ml.so.1").write_bytes(content.replace(version.encode(), other.encode()))
        done = run(watchdog.command("once", {}, machine=False), LD_LIBRARY_PATH=folder)
    line = next((line for line in done.stdout.splitlines() if not line.startswith("?")), "")
    inventory = from_line(line.encode()) if line else None
    told = inventory.problem if isinstance(inventory, Inventory) else done.stderr.strip()[-200:]
    yield passed("a driver updated without a reboot", "reboot" in told, told or "nothing", "says so, and lists no GPU")


def places(machine: Machine) -> Iterator[Check]:
    """NUMA nodes and links of the GPUs, beside `nvidia-smi topo -m`."""
    machine.needs_gpu()
    from schedulearn.metrics.probe.nvml import NvmlReader

    inventory = NvmlReader().inventory()
    table = nvidia_smi.topology()
    gpus = {gpu.index: gpu for gpu in inventory.gpus if not gpu.parent}
    ours = {index: "N/A" if gpu.numa is None else str(gpu.numa) for index, gpu in gpus.items()}
    theirs = {index: table.get(f"GPU{index}", {}).get("NUMA Affinity", "missing") for index in gpus}
    # With one node only there is nothing to choose, and we tell none.
    same = all(ours[i] == theirs[i] or (not inventory.nodes and theirs[i] in ("0", "N/A")) for i in gpus)
    yield passed("NUMA nodes by sysfs", same, f"{ours}", f"as topo -m: {theirs}")
    if len(gpus) < 2:
        yield Check("links between GPUs", "SKIPPED", "there is one GPU only")
        return
    links = {(link.a, link.b): link.kind for link in inventory.links}
    wrong = []
    for (a, b), kind in links.items():
        smi = table.get(f"GPU{a}", {}).get(f"GPU{b}", "")
        if kind not in ({"nvlink"} if smi.startswith("NV") else KINDS.get(smi, set())):
            wrong.append(f"{a}-{b}: {kind}, {smi}")
    missing = len(gpus) * (len(gpus) - 1) // 2 - len(links)
    measured = ", ".join(wrong) or f"{len(links)} links the same, {missing} missing"
    yield passed("links between GPUs", not wrong and not missing, measured, "as topo -m")


def nccl(machine: Machine) -> Iterator[Check]:
    """One rank with NCCL: by Horovod where it is, and by PyTorch."""
    machine.needs_training()
    ports = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "RANK": "0", "WORLD_SIZE": "1"}
    for how, env in (("horovod", {}), ("torch", ports)):
        done = run([sys.executable, str(RANK), how], **env)
        if how == "horovod" and "No module named 'horovod'" in done.stderr:
            yield Check("one rank of Horovod with NCCL", "SKIPPED", f"{sys.executable} has no Horovod")
            continue
        found = found_in(done.stdout)
        took = ", ".join(f"{seconds * 1e3:.2f} ms" for seconds in found.get("seconds", ()))
        said = f"1 MiB and 256 MiB in {took}" if found else (done.stderr.strip() or done.stdout.strip())[-200:]
        name = {"horovod": "one rank of Horovod with NCCL", "torch": "one rank of PyTorch with NCCL"}[how]
        yield passed(name, bool(found.get("right")), said, "sums are right")
