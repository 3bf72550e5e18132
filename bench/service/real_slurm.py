"""Debian's Slurm on loopback, to compare with."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_READY_S = 30


def install() -> str:
    """Install Slurm if it is missing and can be. Return why there is none; empty: there is one."""
    if shutil.which("slurmctld") is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print("  installing Debian's slurm-wlm and munge to compare with", flush=True)
        apt = "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends"
        command = f"apt-get update -qq; {apt} slurm-wlm munge"
        subprocess.run(["sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if shutil.which("slurmctld") is None or os.geteuid() != 0:
        return "Slurm needs root and Debian's slurm-wlm"
    return ""


@contextmanager
def real_slurm(node: str = "CPUs=1", gpus: int = 0) -> Iterator[dict[str, str]]:
    """Run a Slurm of one node with its own folders, ports and key. Yield the environment for its commands.

    `node`: resources of the node, which need not exist. `gpus`: simulated GPUs of type a100."""
    name = subprocess.run(["hostname", "-s"], capture_output=True, text=True, check=True).stdout.strip()
    with ExitStack() as closing:
        home = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        for folder in ("state", "spool"):
            (home / folder).mkdir()
        config = home / "slurm.conf"
        config.write_text(
            f"""ClusterName=bench
SlurmctldHost={name}(127.0.0.1)
SlurmctldPort={_free_port()}
SlurmdPort={_free_port()}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
MaxJobCount=100000
NodeName={name} NodeAddr=127.0.0.1 {node}{f" Gres=gpu:a100:{gpus}" if gpus else ""} State=UNKNOWN
PartitionName=main Nodes={name} Default=YES MaxTime=INFINITE State=UP
"""
        )
        for index in range(gpus):
            (home / f"gpu{index}").touch()
        (home / "gres.conf").write_text(f"Name=gpu Type=a100 File={home}/gpu[0-{gpus - 1}]\n" if gpus else "")
        (home / "munge.key").write_bytes(secrets.token_bytes(128))
        (home / "munge.key").chmod(0o600)
        env = {**os.environ, "SLURM_CONF": str(config)}
        files = [f"--{each}-file={home}/munge.{each}" for each in ("key", "pid", "log", "seed")]
        _daemon(closing, ["munged", "--foreground", "--force", f"--socket={home}/munge.socket", *files], env)
        _await(lambda: (home / "munge.socket").exists(), home)
        _daemon(closing, ["slurmctld", "-D"], env)
        _daemon(closing, ["slurmd", "-D"], env)
        _await(lambda: "idle" in _said(["sinfo", "-h", "-o", "%T"], env), home)
        yield env


def _daemon(closing: ExitStack, command: list[str], env: dict[str, str]) -> None:
    running = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    closing.callback(running.wait, 30)
    closing.callback(running.send_signal, signal.SIGTERM)


def _await(found: Callable[[], bool], home: Path) -> None:
    end = time.monotonic() + _READY_S
    while not found():
        if time.monotonic() > end:
            logs = "\n".join(log.read_text()[-2000:] for log in sorted(home.glob("*.log")))
            raise RuntimeError(f"Slurm did not start in {_READY_S} s:\n{logs}")
        time.sleep(0.1)


def _said(command: list[str], env: dict[str, str]) -> str:
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False).stdout


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
