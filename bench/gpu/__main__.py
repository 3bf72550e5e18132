"""`make gpu-check [ARGS="..."]`: everything that can only be shown on a real GPU, as a table for docs/gpu.md.

Exit codes: 0, what could be checked holds; 1, something does not; 3, there is no GPU, so that nothing was proven.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.gpu import check_driver, check_host, check_jobs, check_models, check_readings, check_sdk
from bench.gpu.machine import Machine, facts, look
from bench.gpu.report import Check, exit_code, loudly, markdown, run


def checks(machine: Machine, models: list[str], out: Path) -> Mapping[str, Callable[[], Iterator[Check]]]:
    """By name, in the order in which they run."""
    return {
        "readings": partial(check_readings.readings, machine),
        "context": partial(check_readings.holds_no_memory, machine),
        "xids": partial(check_driver.xids, machine),
        "latency": partial(check_driver.latency, machine),
        "released": partial(check_driver.released, machine),
        "lookers": partial(check_driver.lookers, machine),
        "mismatch": partial(check_driver.mismatch, machine),
        "places": partial(check_driver.places, machine),
        "nccl": partial(check_driver.nccl, machine),
        "local-job": partial(check_jobs.local_job, machine),
        "container-job": partial(check_jobs.container_job, machine),
        "timing": partial(check_sdk.timing, machine),
        "overhead": partial(check_sdk.overhead, machine),
        "noise": partial(check_sdk.noise, machine),
        "checkpoint": partial(check_sdk.checkpoint, machine),
        "out-of-memory": partial(check_sdk.out_of_memory, machine),
        "step-times": partial(check_models.step_times, machine, models, out),
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make gpu-check", description=__doc__)
    parser.add_argument("--only", metavar="NAMES", help="these checks, separated by commas")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the checks themselves")
    parser.add_argument("--models", default="", help="for step-times, separated by commas")
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder of the report and the tables")
    parser.add_argument("--host", action="store_true", help="ten checks that disturb a host with several GPUs")
    args = parser.parse_args(arguments)
    machine = look(args.device)
    default = "resnet18,resnet50,gpt124m,vit-b16" if args.device == "cuda" else "tiny"
    args.out.mkdir(parents=True, exist_ok=True)
    if args.host:
        known = check_host.checks(machine)
    else:
        known = checks(machine, (args.models or default).split(","), args.out / "applications.json")
    chosen = args.only.split(",") if args.only else list(known)
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"there is no check {', '.join(unknown)}; there are {', '.join(known)}")
    if machine.gpu is None:
        print(f"NO GPU: {machine.why_not}. What needs one is skipped, and nothing is proven.\n", flush=True)
    if args.host and (busy := check_host.in_use(machine)):
        parser.error(busy)
    about = facts(machine, " ".join(["make gpu-check", *arguments]))
    found: list[Check] = []
    report = ""
    for name in chosen:
        for check in run(name, known[name]):
            found.append(check)
            print(f"{check.status:8} {check.name}: {check.measured}", flush=True)
            # After each, so that one who stops it keeps what was found.
            report = markdown(about, found)
            (args.out / "report.md").write_text(report)
    print(f"\n{report}\n{loudly(found)}The report and the tables are in {args.out}/.")
    return exit_code(found, machine.gpu is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
