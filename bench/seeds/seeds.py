"""What the predecessors measured, measured here by real training on the processors of one machine.

python -m bench seeds [fifo-rr] [fifo-rr-others] [config-manager] [thesis] [speedup] [spark] [--quick] [options]

Without names all tables, each in at most half an hour on two quiet cores. `docs/experiments.md` says what differs from
the predecessors' own experiments, and why.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from bench.seeds import config_manager, fifo_rr, spark, speedup, thesis
from bench.seeds.cluster import FRAMEWORKS, progress

TABLES = ("fifo-rr", "fifo-rr-others", "config-manager", "thesis", "speedup", "spark")


def main(arguments: Sequence[str] = ()) -> bool:
    """Prints the tables; what misses its budget is marked. False if Ctrl-C stopped it: what ran has been ended then."""
    args = _read(arguments)
    began = time.monotonic()
    name = ""
    try:
        for name in args.tables or TABLES:
            began = time.monotonic()
            print(f"\n  {name}: {_head(name)}", flush=True)
            _run(name, args)
            print(f"  {name} took {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    except KeyboardInterrupt:
        progress("")
        print(f"  {name} was stopped after {(time.monotonic() - began) / 60:.1f} minutes; its jobs were ended")
        return False
    return True


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench seeds")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a minute or two a table: whether it works, not figures")
    parser.add_argument("--frameworks", default="", help=f"of fifo-rr and speedup, with commas: {','.join(FRAMEWORKS)}")
    parser.add_argument("--jobs", default="", help="of fifo-rr, with commas, in place of its numbers of jobs")
    parser.add_argument(
        "--scale", type=float, help="of fifo-rr its times, of thesis its epochs, as a share of the seed's"
    )
    parser.add_argument("--columns", default="", help="device, processor, or both with a comma")
    parser.add_argument("--mnist", default="", metavar="FILE", help="mnist.npz, for thesis in place of enlarged digits")
    args = parser.parse_args(list(arguments))
    if unknown := set(args.tables) - set(TABLES):
        parser.error(f"there is no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    args.frameworks = args.frameworks.split(",") if args.frameworks else []
    if unknown := set(args.frameworks) - set(FRAMEWORKS):
        parser.error(f"there is no framework {', '.join(sorted(unknown))}; there are {', '.join(FRAMEWORKS)}")
    args.columns = args.columns.split(",") if args.columns else ["device", "processor"]
    if unknown := set(args.columns) - {"device", "processor"}:
        parser.error(f"there is no column {', '.join(sorted(unknown))}; there are device, processor")
    if args.scale is not None and not 0 < args.scale <= 10:
        parser.error("--scale must be above 0 and at most 10")
    try:
        args.jobs = [int(each) for each in args.jobs.split(",")] if args.jobs else []
    except ValueError:
        parser.error("--jobs must be whole numbers with commas between them, such as 5,10")
    if not all(1 <= each <= 100 for each in args.jobs):
        parser.error("--jobs must be 1 to 100")
    return args


def _head(name: str) -> str:
    module = {
        "fifo-rr": fifo_rr, "fifo-rr-others": fifo_rr, "config-manager": config_manager, "thesis": thesis,
        "speedup": speedup, "spark": spark,
    }[name]  # fmt: skip
    return (module.__doc__ or "").splitlines()[0]


def _run(name: str, args: argparse.Namespace) -> None:
    quick = args.quick
    if name in ("fifo-rr", "fifo-rr-others"):
        plan = fifo_rr.plan if name == "fifo-rr" else fifo_rr.others_plan
        rounds = plan(args.frameworks, args.jobs, args.columns, quick=quick)
        fifo_rr.main(rounds, scale=args.scale or (0.05 if quick else fifo_rr.SCALE))
    elif name == "config-manager" and quick:
        config_manager.main(columns=args.columns, epochs=8, others=(1,))
    elif name == "config-manager":
        config_manager.main(columns=args.columns)
    elif name == "thesis" and quick:
        thesis.main(metrics=("default", "speed", "cost"), repeats=1, scale=0.05, mnist=args.mnist, jobs=2, samples=256)
    elif name == "thesis":
        thesis.main(scale=args.scale or thesis.SCALE, mnist=args.mnist)
    elif name == "speedup":
        frameworks = args.frameworks or (["pytorch"] if quick else list(FRAMEWORKS))
        if quick:
            speedup.main(frameworks, workers=(1, 2), columns=args.columns, epochs=1)
        else:
            speedup.main(frameworks, columns=args.columns)
    elif quick:
        spark.main(batches=(64, 128), repeats=2, epochs=2, long_epochs=2)
    else:
        spark.main()


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 130)
