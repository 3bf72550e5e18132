"""What a fresh machine does from `make run` to the end of its first job, in processor seconds of each part.

A fresh clone of what is committed runs once, with an empty home folder and local processes; the first job, of five
keys, is submitted as soon as the service answers. The clock's times are those of whatever else the machine does, so
that two bounds are told beside them: all of the work shared by two cores, and the longest chain of steps of which each
needs the one before: the job's environment, with the compiler on two cores, and then the job. With a wheel from a place
that the operator names (`SCHEDULEARN_HOROVOD_WHEELS`) the compiler's share goes.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx

from bench.measured_service import verdict

ROOT = Path(__file__).parents[2]
CORES = 2
CHAIN_S, PROCESSOR_S = 75.0, 120.0
LONGEST_S = 1800.0
LOOK_S = 0.5
COMPILING = "compiling Horovod"
PARTS = {
    "scripts/venv.sh": "the server's packages",
    "scripts/build-ui.sh": "the page",
    "worker_images/build-env.sh": "the job's environment",
    "schedulearn serve": "the service",
}
JOB = {
    "name": "first", "type": "Pytorch", "container_image": "schedulearn/horovod-cpu",
    "command": 'python -c "print(1)"', "required_gpus": 1,
}  # fmt: skip
LAUNCHER = """\
import os, resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(os.environ["MEASURED_FILES"], "a") as file:
    print(f"{used.ru_utime + used.ru_stime:.2f}", sys.argv[-1], file=file)
sys.exit(code)
"""


class Process(NamedTuple):
    part: str
    parent: int
    used: float
    """Processor seconds, with those of its children that have ended."""


@dataclass
class Timeline:
    """Seconds since `make run`: when each part and each state was seen first and last; and processor seconds."""

    began: float = field(default_factory=time.monotonic)
    seen: dict[str, tuple[float, float]] = field(default_factory=dict)
    processes: dict[int, Process] = field(default_factory=dict)
    """Those that ran at the last look."""
    ended: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Processor seconds of each part's processes that have ended, and are not among those of one that runs."""
    elsewhere: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Of a process: what its ended children used for another part."""
    steps: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Processor seconds of each step of the job's environment."""

    @property
    def now(self) -> float:
        return time.monotonic() - self.began

    def saw(self, what: str) -> None:
        self.seen[what] = (self.seen.get(what, (self.now,))[0], self.now)

    def parts(self) -> dict[str, float]:
        total: dict[str, float] = defaultdict(float, self.ended)
        for number, process in self.processes.items():
            total[process.part] += process.used - self.elsewhere[number]
        return total

    def look(self, found: dict[int, Process]) -> None:
        """What a process used becomes its parent's when it ends."""
        for number, process in self.processes.items():
            if number in found:
                continue
            above: int | None = process.parent
            while above is not None and above not in found:
                above = self.processes[above].parent if above in self.processes else None
            if above is None or found[above].part != process.part:
                seconds = process.used - self.elsewhere[number]
                self.ended[process.part] += seconds
                if above is not None:
                    self.elsewhere[above] += process.used
            elif self.elsewhere[number]:
                self.elsewhere[above] += self.elsewhere[number]
        self.processes = found
        for process in found.values():
            self.saw(process.part)


def main() -> bool:
    with tempfile.TemporaryDirectory(prefix="schedulearn-first-job-") as folder:
        timeline, files = _run(Path(folder))
    for what, (first, last) in sorted(timeline.seen.items(), key=lambda each: each[1]):
        seconds = timeline.parts().get(what)
        processor = f", {seconds:.0f} s of processor" if seconds is not None else ""
        print(f"  {first:4.0f} to {last:4.0f} s by the clock: {what}{processor}")
    for step, seconds in timeline.steps.items():
        print(f"    {step}: {seconds:.0f} s of processor")
    print("  the slowest files: " + ", ".join(f"{name} {took:.0f} s" for took, name in files[:6]))
    total, parts = sum(timeline.parts().values()), timeline.parts()
    compiling = timeline.steps[COMPILING]
    chain = sum(timeline.steps.values()) - compiling + max(compiling / CORES, files[0][0] if files else 0.0)
    chain += parts["the job"]
    print(
        f"  {total:.0f} s of processor, {compiling:.0f} of them the compiler's; {total / CORES:.0f} s on {CORES} cores"
    )
    print(f"  by the clock, beside what else the machine does: {timeline.seen['job succeeded'][0]:.0f} s")
    return all(
        (
            verdict("`make run` to the first job's end, processor seconds", f"{total:.0f} s", f"<= {PROCESSOR_S:.0f} s",
                    total <= PROCESSOR_S),
            verdict("its longest chain on two quiet cores", f"{chain:.0f} s", f"<= {CHAIN_S:.0f} s", chain <= CHAIN_S),
        )
    )  # fmt: skip


def _run(folder: Path) -> tuple[Timeline, list[tuple[float, str]]]:
    clone, home, measured, launcher = (folder / name for name in ("clone", "home", "files", "launcher.py"))
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    home.mkdir()
    launcher.write_text(LAUNCHER)
    measured.touch()
    with_launcher = f"{sys.executable};{launcher}"
    dropped = re.compile(r"SCHEDULEARN_|DOCKER_|VIRTUAL_ENV|MAKE|XDG_|PYTHON")
    env = {name: value for name, value in os.environ.items() if not dropped.match(name)} | {
        "HOME": str(home), "MEASURED_FILES": str(measured), "SCHEDULEARN_RUNTIME": "process",
        "CMAKE_CXX_COMPILER_LAUNCHER": with_launcher, "CMAKE_C_COMPILER_LAUNCHER": with_launcher,
    }  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    timeline = Timeline()
    with subprocess.Popen(
        ["make", "run", f"ARGS=--port {port}"],
        cwd=clone, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True,
    ) as make:  # fmt: skip
        try:
            _follow(timeline, make, f"http://127.0.0.1:{port}", folder)
        finally:
            for process in {make.pid, *_ours(folder)}:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGTERM)
    rows = (line.split(" ", 1) for line in measured.read_text().splitlines())
    return timeline, sorted(((float(took), Path(name).name) for took, name in rows), reverse=True)


def _follow(timeline: Timeline, make: subprocess.Popen[bytes], url: str, folder: Path) -> None:
    job = None
    while timeline.now < LONGEST_S:
        _look(timeline, folder)
        if make.poll() is not None:
            raise RuntimeError(f"`make run` ended with {make.returncode}")
        with contextlib.suppress(httpx.TransportError):
            if job is None:
                job = httpx.post(f"{url}/jobs", json=JOB, timeout=10).raise_for_status().json()["id"]
            state = httpx.get(f"{url}/api/v1/jobs/{job}", timeout=10).raise_for_status().json()["state"]
            timeline.saw(f"job {state}")
            if state == "succeeded":
                return
            if state in ("failed", "cancelled", "timeout"):
                raise RuntimeError(f"the first job ended {state}")
        time.sleep(LOOK_S)
    raise RuntimeError(f"the first job did not end within {LONGEST_S:.0f} s")


def _look(timeline: Timeline, folder: Path) -> None:
    before = timeline.parts().get("the job's environment", 0.0)
    timeline.look(_ours(folder))
    after = timeline.parts().get("the job's environment", 0.0)
    for told in (folder / "home/.cache/schedulearn/locks").glob("env-*.progress"):
        if found := re.match(r"\d+ (.*?)(?: \(.*\))?$", told.read_text().strip()):
            timeline.steps[found[1]] += after - before
            return


def _ours(folder: Path) -> dict[int, Process]:
    """Processes that run now and were given a name below `folder`, and their children: npm writes over what it was
    given."""
    parents, commands, used = {}, {}, {}
    ours = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            number = int(entry.name)
            words = (entry / "stat").read_text().rpartition(") ")[2].split()
            parents[number] = int(words[1])
            used[number] = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
            commands[number] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder).encode() in (entry / "environ").read_bytes():
                ours.add(number)
    while more := {each for each in parents if each not in ours and parents[each] in ours}:
        ours |= more
    commands = {each: commands.get(each, "") for each in ours}
    return {each: Process(_part_of(each, parents, commands), parents[each], used[each]) for each in ours}


def _part_of(process: int, parents: dict[int, int], commands: dict[int, str]) -> str:
    """By the command of the first of itself and those above it that tells."""
    at: int | None = process
    while at in commands:
        for words, part in PARTS.items():
            if words in commands[at]:
                return part
        if "make run" in commands[at]:
            return "make"
        at = parents.get(at)
    return "the job"
