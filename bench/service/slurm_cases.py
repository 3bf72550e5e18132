"""Small batch scripts, and what Debian's Slurm says of each.

Each case is a list of words after `sbatch`, and the options of the script. `python -m bench.service.slurm_answers` asks
the real Slurm and writes `real_answers.json`.
"""

from __future__ import annotations

from typing import NamedTuple

NODE = "CPUs=64 Boards=1 SocketsPerBoard=1 CoresPerSocket=64 ThreadsPerCore=1 RealMemory=512000"
GPUS = 8
BODY = """
env | grep '^SLURM_' | sort
echo == step
srun sh -c 'env | grep ^SLURM_ | sort | sed "s/^/$SLURM_PROCID /"'
"""


class RealCase(NamedTuple):
    """Batch script. `words`: options on the command line."""

    options: str
    words: str = ""

    @property
    def text(self) -> str:
        lines = "".join(f"#SBATCH {line.strip()}\n" for line in self.options.split(";") if line.strip())
        return f"#!/bin/bash\n{lines}{BODY}"


CASES = {
    "plain": RealCase(""),
    "name": RealCase("-J train"),
    "long-name": RealCase("--job-name=train-a-large-network"),
    "tasks": RealCase("-n 6"),
    "tasks-long": RealCase("--ntasks=3"),
    "tasks-per-node": RealCase("--ntasks-per-node=4"),
    "one-node": RealCase("--nodes=1; --ntasks-per-node=2"),
    "node-and-tasks": RealCase("-N1; -n 6"),
    "cpus": RealCase("-c 8"),
    "cpus-of-tasks": RealCase("-n 2; --cpus-per-task=4"),
    "memory": RealCase("--mem=16G"),
    "memory-megabytes": RealCase("--mem=4000"),
    "memory-per-cpu": RealCase("-c 4; --mem-per-cpu=2G"),
    "memory-per-cpu-of-tasks": RealCase("-n 8; --mem-per-cpu=512M"),
    "gpu": RealCase("--gres=gpu:1"),
    "gpus-of-node": RealCase("--gres=gpu:4; --cpus-per-task=16; --mem=64G"),
    "gpu-type": RealCase("--gres=gpu:a100:2"),
    "gpus": RealCase("--gpus=2"),
    "gpus-short": RealCase("-G 4"),
    "gpus-per-node": RealCase("-N 1; --gpus-per-node=2"),
    "gpus-per-task": RealCase("-n 2; --gpus-per-task=1"),
    "cpus-per-gpu": RealCase("--gpus=2; --cpus-per-gpu=6"),
    "memory-per-gpu": RealCase("--gpus=2; --mem-per-gpu=16G"),
    "tasks-per-gpu": RealCase("--gpus=2; --ntasks-per-gpu=2"),
    "minutes": RealCase("--time=90"),
    "minutes-seconds": RealCase("-t 10:30"),
    "hours": RealCase("--time=02:00:00"),
    "days": RealCase("--time=1-12"),
    "days-long": RealCase("-t 2-03:04:05"),
    "no-limit": RealCase("--time=UNLIMITED"),
    "array": RealCase("--array=1-4"),
    "array-steps": RealCase("-a 0-10:5; -J many"),
    "array-list": RealCase("--array=2,5,9"),
    "array-limited": RealCase("--array=0-9%2"),
    "line-over-script": RealCase("-n 2; --time=10", "-n 5 --time 20"),
    "line-alone": RealCase("", "-J other --mem=1G -c2"),
    "variables": RealCase("--export=ALL,LR=0.1"),
    "begin": RealCase("--begin=now+2hours"),
    "hold": RealCase("--hold"),
    "comment": RealCase("--comment=first; --requeue; -n1"),
    "several-on-a-line": RealCase("-n 2 -c 3 --mem=2G"),
    "signal": RealCase("--signal=B:USR1@60; --time=5"),
    "whole": RealCase("--nodes=1; --ntasks=1; --cpus-per-task=32; --gres=gpu:8; --mem=200G; --time=3-0; -J whole"),
    "two-nodes": RealCase("--nodes=2; --ntasks-per-node=4"),
    "unknown-option": RealCase("--frobnicate=1"),
    "bad-time": RealCase("--time=soon"),
    "bad-memory": RealCase("--mem=lots"),
    "bad-tasks": RealCase("-n many"),
    "bad-array": RealCase("--array=x"),
    "all-memory": RealCase("--mem=0"),
    "licence": RealCase("--licenses=matlab:1"),
    "constraint": RealCase("--constraint=bigmem"),
    "node-list": RealCase("--nodelist=elsewhere"),
    "memory-over-script": RealCase("-c 2; --mem-per-cpu=2G", "--mem=1G"),
    "memory-twice": RealCase("--mem=4G; --mem-per-cpu=512M; -n 3"),
    "tasks-over-nodes": RealCase("-n 4; --ntasks-per-node=2"),
    "step-tasks": RealCase("-n 3; -J step"),
    "no-cpus": RealCase("-c 0"),
    "no-tasks": RealCase("-n 0"),
    "no-number": RealCase("-n 4x"),
    "nodes-range": RealCase("-N 1-1; -n 2"),
    "partition": RealCase("-p main"),
    "singleton": RealCase("--dependency=singleton"),
}
