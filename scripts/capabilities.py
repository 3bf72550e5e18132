"""Table of files and lines per capability, at two commits.

    python scripts/capabilities.py [BEFORE [AFTER]] [--write]

It counts Python files of the product with all their lines: no tests, benchmarks, scripts or examples. `--write` puts
the table between its marks in docs/architecture.md. It needs both commits, so CI clones can't run it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/architecture.md"
MARKS = ("<!-- counted: capabilities -->\n", "<!-- end of counted -->")
BEFORE = "66cb50c"
PRODUCT = re.compile(r"(api|features|metrics|scheduler|src|worker_images)/(?!examples/).*\.py")

CAPABILITIES = {
    "webhooks": "features/webhooks/.* .*/webhook[^/]* api/outgoing/.*",
    "notices": "features/notices/.* .*/notices .*/notify",
    "sweeps, experiments, search, advice": """features/sweeps/.* api/(cli|routes)/experiments/.* scheduler/advisor/.*
        api/answers/(advice|experiment|sweep) api/client/asked/(experiments|sweeps) .*/sweeps?
        scheduler/control/experiments/.* scheduler/specs/(advice|experiment|search)
        scheduler/store/experiments/(past_runs|results|searches)""",
    "data sets": """scheduler/(data|hosts/data|store/data)/.* api/(cli|client)/data/.* api/answers/data
        api/routes/inputs/data.* .*/shared_data""",
    "telemetry and GPUs": """metrics/probe/.* scheduler/telemetry/.* scheduler/store/(resources/.*|gpu.*) .*/cuda_check
        scheduler/runtimes/resources/.* scheduler/runtimes/docker/(probe.*|gpu_reset)
        scheduler/core/(gpu_sharing|topology|outcomes/gpu.*|outcomes/xids) api/routes/metrics api/cli/(hands/)?processes
        api/(cli|routes|answers)/(telemetry|resources|gpus|top|process) api/prometheus""",
    "interactive (terminals, ports, exec)": """features/interactive/.* api/(cli/hands|ports|terminals)/.*
        scheduler/(hosts|runtimes)/terminals/.* scheduler/runtimes/process/session scheduler/specs/ports""",
    "trackers of runs": "scheduler/core/planning/run_trackers",
    "failures by cause": "features/failures/.* api/job_failures scheduler/reports/failure_advice",
    "usage": "features/usage/.* api/(cli|routes)/usage scheduler/store/accounting/.* scheduler/core/prices",
    "Slurm import": "features/slurm/.* api/cli/job_files/slurm",
    "admin (backup, doctor, uninstall)": """features/admin/.* scheduler/(doctor|uninstall|store/backup)
        api/cli/service/(backup|doctor|uninstall)""",
    "accounts (users, groups, quotas, tokens, secrets)": """features/accounts/.* api/(cli|routes)/people/.* .*/people
        api/routes/sessions scheduler/store/people/.*""",
    "simulator and forecasts": "features/simulate/.* scheduler/sim/.* api/cli/simulate scheduler/control/forecaster",
    "worker reports and predictions": """scheduler/(reports|core/predictions|store/predictions|store/experiments)/.*
        api/(routes|answers)/reports?""",
    "policies and goodput model": "scheduler/policies/.* metrics/(model/.*|__init__) scheduler/core/profile .*/policy",
    "worker SDK": "worker_images/(sdk/.*|gang)",
    "logs, files, outputs, checkpoints": """api/(logs|files)/.* api/answers/(file|log) api/(cli|client)/files
        api/routes/disk scheduler/control/job_logs scheduler/store/moved_outputs
        scheduler/hosts/([^/]*checkpoints|job_files|outputs|transfer|disk_cleanup)
        scheduler/runtimes/(log_[^/]*|last_error|archives|paths|untracked)
        scheduler/runtimes/docker/(logs|storage/.*)""",
    "hosts and agents": """scheduler/hosts/.* scheduler/specs/host scheduler/store/(hosts|identity)
        scheduler/core/host_.* api/(cli|routes|answers)/hosts?""",
    "runtimes (Docker, processes, images)": "scheduler/runtimes/.* worker_images/(__init__|check)",
    "jobs and submission": """scheduler/(specs|code|control/submission)/.* scheduler/control/service
        scheduler/store/job_.* api/(cli|routes|answers|client|client/asked)/(jobs?|submit|legacy|code)
        api/cli/(job_files|lifecycle)/.* api/routes/inputs/.*
        api/edge/(submissions|joined_writes|thread_futures) api/(job_standing|body_keys)""",
    "planning core and loop": "scheduler/(core|control)/.*",
    "database migrations": "scheduler/store/migrations/.*",
    "store": "scheduler/store/[^/]+ scheduler/store/engines/.*",
    "client": "api/client/.* src/schedulearn/clients",
    "command line": "api/cli/.*",
    "API core (access, edge, TLS, streams)": "api/(access|answers|edge|routes|tls)/[^/]+ api/[^/]+",
    "start, settings, threads, errors": "scheduler/[^/]+ src/schedulearn/[^/]+ features/__init__",
}
"""Capability -> expressions for its files, without `.py`, in both layouts. The first that matches has the file."""


class Size(NamedTuple):
    files: int
    lines: int
    folders: int


def capability_of(path: str) -> str:
    """Return the capability of a file. Raises SystemExit if none claims it."""
    for name, patterns in CAPABILITIES.items():
        if any(re.fullmatch(pattern, path.removesuffix(".py")) for pattern in patterns.split()):
            return name
    raise SystemExit(f"No capability claims {path}: add it to CAPABILITIES.")


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def sizes(commit: str) -> dict[str, Size]:
    """Return the size of each capability at a commit."""
    # `grep -c` counts lines: every line matches the empty pattern. It leaves out empty files, which have none.
    counted = (line.rsplit(":", 1) for line in git("grep", "-c", "", commit, "--", "*.py").splitlines())
    lines = {name.partition(":")[2]: int(count) for name, count in counted}
    found = defaultdict(list)
    for path in git("ls-tree", "-r", "--name-only", commit).splitlines():
        if PRODUCT.fullmatch(path):
            found[capability_of(path)].append(path)
    return {
        name: Size(len(paths), sum(lines.get(path, 0) for path in paths), len({Path(path).parent for path in paths}))
        for name, paths in found.items()
    }


def table(before: str, after: str) -> str:
    """Return the table in Markdown, with a row for the sum."""
    old, new = sizes(before), sizes(after)
    columns = [f"{word}, `{git('rev-parse', '--short=8', commit).strip()}`" for word, commit in zip(
        ("before", "after"), (before, after), strict=True
    )]  # fmt: skip
    rows = [f"| capability | files {columns[0]} → {columns[1]} | lines | folders |", "| --- | ---: | ---: | ---: |"]
    nothing = Size(0, 0, 0)
    pairs = {name: (old.get(name, nothing), new.get(name, nothing)) for name in CAPABILITIES}
    for name, (was, now) in sorted(pairs.items(), key=lambda pair: -pair[1][1].lines):
        rows.append(f"| {name} | " + " | ".join(f"{a:,} → {b:,}" for a, b in zip(was, now, strict=True)) + " |")
    all_old, all_new = ([sum(column) for column in zip(*each.values(), strict=True)] for each in (old, new))
    totals = [f"{a:,} → {b:,}" for a, b in zip(all_old[:2], all_new[:2], strict=True)]
    return "\n".join([*rows, f"| **all** | {totals[0]} | {totals[1]} | |"]) + "\n"


def main() -> None:
    commits = [word for word in sys.argv[1:] if word != "--write"]
    made = table(*(commits + [BEFORE, "HEAD"][len(commits) :]))
    if "--write" in sys.argv:
        head, _, rest = PAGE.read_text().partition(MARKS[0])
        PAGE.write_text(head + MARKS[0] + made + MARKS[1] + rest.partition(MARKS[1])[2])
    else:
        sys.stdout.write(made)


if __name__ == "__main__":
    main()
