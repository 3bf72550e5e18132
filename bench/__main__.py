"""`python -m bench [NAME[=SECONDS]...]`: runs the measurements and says which budgets are kept; exits 1 if one is not.
SECONDS: how long `footprint` and `forecasts` look; of `deadlines`, how many traces; of `search` and `tuning`, how many
seeds; of `factorial`, which share of the runs; of `search_once`, which share of the epochs; of `philly`, which share of
its jobs and hosts; of `rigid`, how many clusters; of `objectives`, how many jobs really run; of `sia`, how many traces
of each kind.
`--artifact PATH`: a checkout for `outside`, `--sia PATH`: one for `sia`. `seeds [TABLE...]` takes hours, so it runs
only where it is named; what follows it is its own (`seeds --help`). `tests`, how often; of
`references`, how many designs: these two too run only where they are named."""

from __future__ import annotations

import importlib
import os
import signal
import sys

MODULES = {
    "commands": "service", "client": "service",
    "footprint": "service", "decisions": "policies", "submissions": "service", "burst": "service",
    "load": "service", "held": "service",
    "start_latency": "service", "sdk": "training", "hosts": "service", "telemetry": "service", "page": "service",
    "simulation": "policies", "allocation": "policies", "forecasts": "service", "accuracy": "training",
    "outside": "policies", "sia": "policies", "columns": "policies", "philly": "policies", "run": "service",
    "deadlines": "policies", "rigid": "policies",
    "first_job": "training", "accumulation": "training",
    "search": "training", "search_once": "training", "tuning": "training", "seeds": "seeds", "factorial": "courier",
    "objectives": "courier", "tests": "service", "references": "statistics",
}  # fmt: skip

ALONE = ("seeds", "tests", "references")
"""Run only where they are named."""
CHECKOUTS = {"--artifact": "POLLUX_ARTIFACT", "--sia": "SIA_ARTIFACT"}
"""Option -> the variable that says the same."""


def main() -> int:
    given = sys.argv[1:]
    for option, variable in CHECKOUTS.items():
        if option in given[:-1]:
            at = given.index(option)
            os.environ[variable] = given[at + 1]
            del given[at : at + 2]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the commands do, before numpy is imported
    if given[:1] == ["seeds"]:
        from bench.seeds import seeds

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: its jobs would outlive it

        return 0 if seeds.main(given[1:]) else 130
    chosen = [
        each.partition("=")
        for each in given or [name for name in MODULES if name not in ("seeds", "tests", "references")]
    ]
    if unknown := {name for name, _, _ in chosen} - set(MODULES):
        print(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(MODULES)}", file=sys.stderr)
        return 2
    if "seeds" in {name for name, _, _ in chosen}:
        print("seeds is run by itself: python -m bench seeds [TABLE...]", file=sys.stderr)
        return 2
    kept = True
    for name, _, seconds in chosen:
        module = importlib.import_module(f"bench.{MODULES[name]}.{name}")
        print(f"{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        kept = (module.main(float(seconds)) if seconds else module.main()) and kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
