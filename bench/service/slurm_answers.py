"""Answers of Debian's Slurm to the scripts and formats of the tests, written as JSON.

    python -m bench.service.slurm_answers [FILE]

It needs root, and installs Slurm if it can.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.service.real_slurm import install, real_slurm
from bench.service.slurm_cases import CASES, GPUS, NODE, RealCase

TESTS = Path(__file__).parents[2] / "tests" / "features" / "slurm"
FORMATS = {
    "squeue": [
        ["-o", "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"],
        ["-o", "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"],
        ["-h", "-o", "%i|%j|%T"],
        ["-o", "%10i%5P %.4j<%u>"],
        ["-o", "jobs: %j %C %m %l %L %r"],
        ["-h", "-o", "%A %F %K %Q %N"],
        ["-O", "JobID:10,Name,State:.12,UserName:5"],
        ["-h", "-O", "jobid:12,numcpus:3,timelimit"],
    ],
    "sinfo": [
        [],
        ["-N"],
        ["-h", "-o", "%N %t %c %m"],
        ["-o", "%9P %.5a %.10l %.6D %.6t %N"],
        ["-o", "%20N|%.3D|%T|%C"],
        ["-O", "NodeList:12,CPUs:5,StateCompact"],
    ],
}
OF_A_SITE = {
    "SLURM_CONF", "SLURM_WORKING_CLUSTER", "SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN", "SLURM_PRIO_PROCESS",
    "SLURM_NODE_ALIASES", "SLURM_SRUN_COMM_HOST", "SLURM_SRUN_COMM_PORT", "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_STEP_LAUNCHER_PORT", "SLURM_UMASK", "SLURM_JOB_CPUS_PER_NODE_PACK_GROUP_0",
}  # fmt: skip
"""Variables that describe Slurm's daemons. They are not recorded."""
DIFFER = {
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_JOB_ID", "SLURM_TASK_PID", "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST",
    "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST", "SLURM_CLUSTER_NAME", "SLURM_JOB_USER",
    "SLURM_JOB_UID", "SLURM_JOB_GID",
}  # fmt: skip
"""Variables that each run sets, with another value. Only that they are set is recorded."""
_WAIT_S = 240
_NOT_RUN = {"--hold", "--begin=now+2hours", "--dependency=singleton", "--nodes=2", "-n 4"}
"""Options of scripts that would not run soon, or never."""


def main(arguments: list[str]) -> int:
    if missing := install():
        print(f"NOT ASKED: {missing}")
        return 1
    file = Path(arguments[0]) if arguments else TESTS / "real_answers.json"
    file.write_text(json.dumps(ask(), indent=1, sort_keys=True) + "\n")
    print(f"wrote {file}")
    return 0


def ask() -> dict[str, Any]:
    """Return the answers of a real Slurm."""
    with real_slurm(NODE, GPUS) as env, tempfile.TemporaryDirectory() as folder:
        slurm = _Asked(env, Path(folder))
        cases = {name: slurm.about(name, case) for name, case in CASES.items()}
        slurm.await_all()
        for name, case in cases.items():
            case |= slurm.variables(name)
        return {"version": slurm.said("sbatch", "--version").strip(), "cases": cases, "formats": slurm.formats()}


class _Asked:
    """A running Slurm, and a folder for scripts and outputs."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self._env = env
        self._folder = folder

    def said(self, *command: str) -> str:
        return subprocess.run(
            command, env=self._env, cwd=self._folder, capture_output=True, text=True, check=True
        ).stdout

    def about(self, name: str, case: RealCase) -> dict[str, Any]:
        """Return what a script asks for, and its variables; or that it is refused."""
        script = self._folder / f"{name}.sbatch"
        script.write_text(case.text)
        command = ["sbatch", "--parsable", *case.words.split()]
        held = subprocess.run(
            [*command, "--hold", str(script)],
            env=self._env,
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if held.returncode:
            return {"refused": held.stderr.strip().splitlines()[0]}
        job = held.stdout.strip()
        facts = _facts(self.said("scontrol", "show", "job", "-o", job))
        self.said("scancel", job)
        if _NOT_RUN & set(case.options.split("; ")):
            return {"asks": facts}
        self.said(*command, "-o", f"{self._folder}/{name}.%a.out", str(script))
        return {"asks": facts}

    def variables(self, name: str) -> dict[str, Any]:
        """Return the variables of a case that has run; empty: it was not run."""
        found = sorted(self._folder.glob(f"{name}.*.out"), key=lambda file: int(file.stem.rpartition(".")[2]))
        if not found:
            return {}
        batch, _, step = found[0].read_text().partition("== step\n")
        seen = recorded(_variables(batch))
        tasks = {rank: recorded(each) for rank, each in step_variables(step).items()}
        return {
            "batch": seen,
            "step": {
                rank: {name: value for name, value in each.items() if seen.get(name) != value}
                for rank, each in tasks.items()
            },
        }

    def await_all(self) -> None:
        """Wait until all jobs have ended."""
        end = time.monotonic() + _WAIT_S
        while left := self.said("squeue", "-h", "-o", "%j %T %r"):
            if time.monotonic() > end:
                raise RuntimeError(f"jobs did not end in {_WAIT_S} s:\n{left}")
            time.sleep(0.2)

    def formats(self) -> list[dict[str, Any]]:
        """Return tables in many formats, and the plain values that they show."""
        for words in (["-J", "a-very-long-name", "-n2", "--mem=2G"], ["-J", "short", "--hold", "-t", "90"]):
            self.said("sbatch", *words, "--wrap", "sleep 600")
        end = time.monotonic() + _WAIT_S
        while "RUNNING" not in self.said("squeue", "-h", "-o", "%T") and time.monotonic() < end:
            time.sleep(0.1)
        found = []
        for command, formats in FORMATS.items():
            for words in formats:
                values = self._values(command)
                found.append({"command": command, "words": words, "values": values, "out": self.said(command, *words)})
        self.said("scancel", "-u", "root", "-s", "KILL")
        return found

    def _values(self, command: str) -> list[dict[str, str]]:
        letters = "iAFKjutTMlLDCmrRNPQ" if command == "squeue" else "PalDtTNcmC"
        out = self.said(command, "-h", "-o", "|".join(f"%{letter}" for letter in letters))
        return [dict(zip(letters, line.split("|"), strict=True)) for line in out.splitlines()]


def _facts(text: str) -> dict[str, str]:
    """Return the fields of `scontrol show job` that say what a job asks for."""
    wanted = (
        "JobName", "NumNodes", "NumCPUs", "NumTasks", "CPUs/Task", "TimeLimit", "MinMemoryNode", "MinMemoryCPU",
        "TresPerJob", "TresPerNode", "TresPerTask", "ArrayTaskId", "ArrayTaskThrottle", "Priority", "Requeue", "TRES",
    )  # fmt: skip
    fields = dict(re.findall(r"(\S+?)=(\S+)", text))
    return {name: fields[name] for name in wanted if name in fields}


def _variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def recorded(variables: dict[str, str]) -> dict[str, str]:
    """Return the variables to compare; those that differ with each run without their value."""
    return {name: "" if name in DIFFER else value for name, value in variables.items() if name not in OF_A_SITE}


def step_variables(text: str) -> dict[str, dict[str, str]]:
    """Return the variables of each task of a step."""
    tasks: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        rank, _, rest = line.partition(" ")
        name, equals, value = rest.partition("=")
        if equals and rank.isdigit():
            tasks.setdefault(rank, {})[name] = value
    return tasks


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
