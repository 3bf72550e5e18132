"""`make gpu-check ARGS=--host`: what happens to a host with several GPUs in operation, done to it.

It disturbs the host: units of systemd are stopped and started, memory of GPUs is taken. It needs root.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.gpu import check_driver, nvidia_smi
from bench.gpu.check_driver import RANK, held
from bench.gpu.check_jobs import CONTAINER_S, Service, docker_with_gpus, service
from bench.gpu.machine import ROOT, Machine, found_in, run
from bench.gpu.report import Check, Skipped, passed

IMAGE = "schedulearn/pytorch"
FABRIC_MANAGER = "nvidia-fabricmanager"
SETTLE_S = 5.0
SHM_BYTES = 4 << 30
"""A GPU, by default."""


def checks(machine: Machine) -> Mapping[str, Callable[[], Iterator[Check]]]:
    """By name, in the order in which they run: what ends all CUDA comes last."""
    driver = (check_driver.places, check_driver.xids, check_driver.mismatch)
    own = (all_reduce, transport, shared_memory, holder, probe_stopped, daemon_reload, fabric_manager)
    return {check.__name__.replace("_", "-"): partial(check, machine) for check in (*driver, *own)}


def in_use(machine: Machine) -> str:
    """Why these checks must not run here; empty: nobody computes."""
    listed = nvidia_smi.processes() if machine.gpu is not None else []
    return f"processes {', '.join(listed[:5])} compute on the GPUs: --host would disturb them" if listed else ""


def all_reduce(machine: Machine) -> Iterator[Check]:
    """Sums over 1, 2, 4 and 8 GPUs by NCCL, and the bandwidth of the bus as nccl-tests count it."""
    count = _gpus(machine)
    machine.needs_training()
    for ranks in [each for each in (1, 2, 4, 8) if each <= count]:
        done = _ranks(ranks)
        found = found_in(done.stdout)
        said = (done.stderr.strip() or done.stdout.strip())[-200:]
        if found:
            gbs = [
                bandwidth(size, ranks, took) / 1e9 for size, took in zip(found["sizes"], found["seconds"], strict=True)
            ]
            said = f"1 MiB {gbs[0]:.1f} GB/s, 256 MiB {gbs[1]:.1f} GB/s" if ranks > 1 else "one rank"
        yield passed(f"all-reduce on {ranks} GPUs", bool(found.get("right")), said, "sums are right")


def bandwidth(size: int, ranks: int, seconds: float) -> float:
    """Bytes a second that each link carries (nccl-tests, PERFORMANCE.md): 2 (n - 1) / n of the tensor."""
    return 2 * (ranks - 1) / ranks * size / seconds


def transport(machine: Machine) -> Iterator[Check]:
    """What NCCL takes between hosts, which two ranks show that may use neither peer-to-peer nor shared memory."""
    if _gpus(machine) < 2:
        raise Skipped("it needs two GPUs")
    machine.needs_training()
    done = _ranks(2, NCCL_DEBUG="INFO", NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1")
    found = sorted(set(re.findall(r"via NET/(\w+)", done.stdout + done.stderr)))
    infiniband = Path("/sys/class/infiniband")
    wanted = "IB" if infiniband.is_dir() and any(infiniband.iterdir()) else "Socket"
    yield passed("network of NCCL", found == [wanted], ", ".join(found) or done.stderr[-200:], wanted)


def _ranks(count: int, **env: str) -> subprocess.CompletedProcess[str]:
    how = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", str(RANK), "torch"]
    return run([sys.executable, *how], **env)


def shared_memory(machine: Machine) -> Iterator[Check]:
    """What a container gets for DataLoaders and NCCL, where its job says nothing."""
    count = min(2, _gpus(machine))
    docker_with_gpus()
    with service("docker", None) as served:
        container = _started(served, count)
        size = int(_docker("inspect", "--format", "{{.HostConfig.ShmSize}}", container).stdout)
    wanted = count * SHM_BYTES
    yield passed(f"/dev/shm of {count} GPUs", size >= wanted, f"{size / 1e9:.1f} GB", f">= {wanted / 1e9:.1f} GB")


def holder(machine: Machine) -> Iterator[Check]:
    """A process that is no job's, looked at by the probe in its container: no job gets that GPU."""
    gpu = machine.needs_gpu()
    count = _gpus(machine)
    docker_with_gpus()
    with service("docker", None) as served, held(gpu["uuid"], 8 << 30):
        taken = served.wait("the holder to be seen", lambda: served.gpu(gpu["uuid"]).get("occupied_by"))
        job = served.submit("gpu-check all", IMAGE, "true", {}, gpus=count)
        time.sleep(2 * SETTLE_S)
        state = served.job(job)["state"]
    yield passed("a holder beside jobs in containers", state == "queued", f"{taken}; {state}", "seen; queued")


def probe_stopped(machine: Machine) -> Iterator[Check]:
    """Somebody stops the probe's container: the job goes on, no GPU is lost, and another probe comes."""
    machine.needs_gpu()
    docker_with_gpus()
    with service("docker", None) as served:
        container = _started(served, 1)
        before = {gpu["uuid"] for gpu in served.ask("/api/v1/gpus")}
        stopped = _containers("schedulearn.probe")
        _docker("stop", "--time", "1", *stopped)
        time.sleep(SETTLE_S)
        kept = {gpu["uuid"] for gpu in served.ask("/api/v1/gpus")} == before
        runs = container in _containers("schedulearn.job")
        said = f"GPUs {'kept' if kept else 'lost'}, job {'runs' if runs else 'ended'}"
        yield passed("a probe that was stopped", bool(stopped) and kept and runs, said, "GPUs kept, job runs")
        served.wait("another probe", lambda: set(_containers("schedulearn.probe")) - set(stopped))
        yield Check("another probe comes", "passed")


def daemon_reload(machine: Machine) -> Iterator[Check]:
    """systemd sets up its control groups anew: containers must keep their GPUs."""
    machine.needs_gpu()
    docker_with_gpus()
    _needs_systemd()
    with service("docker", None) as served:
        container = _started(served, 1)
        run(["systemctl", "daemon-reload"])
        time.sleep(SETTLE_S)
        done = _docker("exec", container, "nvidia-smi", "-L")
        said = (done.stdout.strip() or done.stderr.strip())[-200:]
    yield passed("GPUs of a job after systemctl daemon-reload", done.returncode == 0, said, "the job has its GPU")


def fabric_manager(machine: Machine) -> Iterator[Check]:
    """Without it CUDA does not start on GPUs behind NVSwitches: that must be told as the host's fault."""
    machine.needs_gpu()
    machine.needs_training()
    _needs_systemd()
    if run(["systemctl", "is-active", "--quiet", FABRIC_MANAGER]).returncode:
        raise Skipped(f"{FABRIC_MANAGER} does not run here: no NVSwitches")
    from schedulearn.scheduler.core.outcomes.blame import Blame, of_output

    try:
        run(["systemctl", "stop", FABRIC_MANAGER])
        time.sleep(SETTLE_S)
        done = run([sys.executable, str(ROOT / "worker_images/cuda_check.py")])
    finally:
        run(["systemctl", "start", FABRIC_MANAGER])
    found = of_output(done.stdout.encode(), "this host")
    blamed = found is not None and found.cause.blame is Blame.HOST
    yield passed("fabric manager stopped", blamed, found.sentence if found else done.stdout[-200:], "the host's fault")


def _started(served: Service, gpus: int) -> str:
    """The container of a job that sleeps; its image may have to be built first."""
    job = served.submit("gpu-check sleeps", IMAGE, "sleep 600", {}, gpus=gpus)
    return served.wait("the job's container", lambda: _containers(f"schedulearn.job={job}"), CONTAINER_S)[0]


def _containers(label: str) -> list[str]:
    """Whole ids of those that run."""
    return _docker("ps", "--quiet", "--no-trunc", "--filter", f"label={label}").stdout.split()


def _docker(*words: str) -> subprocess.CompletedProcess[str]:
    return run(["docker", *words])


def _gpus(machine: Machine) -> int:
    machine.needs_gpu()
    return len(nvidia_smi.ask())


def _needs_systemd() -> None:
    if os.geteuid():
        raise Skipped("needs root")
    if shutil.which("systemctl") is None or not Path("/run/systemd/system").is_dir():
        raise Skipped("systemd does not run here")
