"""Takes guards out of the code, one by one, and sees that the tests of their area notice.

    python scripts/guards.py            all of them
    python scripts/guards.py owner      those whose name has this word

Each guard is taken out in a copy of the project, so nothing here is changed. A guard whose removal no test notices is
printed, and the script ends with 1.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Guard(NamedTuple):
    """`old` stands once in `file`; `new` is the code without the guard. `tests`: those of its area."""

    name: str
    file: str
    old: str
    new: str
    tests: str


_RECONCILE = "scheduler/core/planning/reconcile.py"
_AUTH = "api/access/guard.py"
_CREDENTIALS = "api/access/credentials.py"
_QUOTAS = "scheduler/core/planning/quotas.py"
_LIMITS = "scheduler/core/planning/limits.py"

GUARDS = [
    Guard("lease: a slot of a GPU has one owner", "scheduler/core/planning/placement.py",
          "slots = set(range(jobs_per_gpu)) - gpu.taken_slots", "slots = set(range(jobs_per_gpu))",
          "tests/unit/policies tests/unit/core"),
    Guard("lease: what one job was given is not given to the next", "scheduler/core/planning/placement.py",
          "slots.difference_update(c.slot for c in claims if c.gpu_uuid == gpu.uuid)", "pass",
          "tests/unit/policies tests/unit/core"),
    Guard("lease: nothing is placed beside a container that was given up", _RECONCILE,
          "return any(before or task.state not in dead for task in given_up)", "return False",
          "tests/unit/core tests/faults/test_harness.py tests/faults/test_found.py"),
    Guard("turns: none starts on a GPU where another runs", _RECONCILE,
          "if want.hold or want.suspended or not busy.isdisjoint(want.spec.gpu_uuids):",
          "if want.hold or want.suspended:", "tests/unit/core tests/cluster/test_loop.py"),
    Guard("turns: none is resumed on a GPU where another runs", _RECONCILE,
          "if not want.suspended and not awake and gpus.in_use.isdisjoint(mine):",
          "if not want.suspended and not awake:", "tests/unit/core"),
    Guard("task: what ran is never started again", _RECONCILE,
          "if not want.ran and state in (None, EngineState.CREATED):", "if state in (None, EngineState.CREATED):",
          "tests/unit/core"),
    Guard("task: a later try waits for its time", _RECONCILE,
          "return StartTask(want.spec) if due else None", "return StartTask(want.spec)", "tests/unit/core"),
    Guard("task: a start waits for its image", _RECONCILE,
          "next((need for need in want.needs if need not in there), None)", "next(iter(()), None)", "tests/unit/core"),
    Guard("state: nothing follows an end", "scheduler/core/states.py",
          "_OK: frozenset(),", "_OK: frozenset({_Q}),", "tests/unit/core"),
    Guard("state: the database knows which jobs have ended", "scheduler/store/models.py",
          """(finished_at IS NOT NULL) = (state IN ('succeeded','failed','cancelled','timeout'))""", "1 = 1",
          "tests/unit/store"),
    Guard("state: one live task of each rank", "scheduler/store/models.py",
          'Index("task_one_live_a_rank", "job_id", "rank", unique=True,',
          'Index("task_one_live_a_rank", "job_id", "rank", unique=False,', "tests/unit/store"),
    Guard("state: who waits for a job that failed never starts", "scheduler/core/planning/predecessors.py",
          "if job.after is not None and job.state in WAITS and not job.attempt:",
          "if False and job.after is not None:", "tests/unit/core tests/api/test_after.py"),
    Guard("owner: another's job is not changed", _AUTH,
          "if owner is None or owner == actor.name:", "if True:", "tests/api/safety/test_roles.py"),
    Guard("owner: another's hidden job is not there", _AUTH,
          "if self.hides and is_known and not actor.is_admin else None", "if False else None",
          "tests/api/safety/test_hidden_jobs.py"),
    Guard("role: who lacks the role is refused", _AUTH,
          "if not actor.role.includes(role):", "if False:", "tests/api/safety/test_roles.py"),
    Guard("role: a token gives no more than its user has", _CREDENTIALS,
          "least(token.role, role)", "token.role",
          "tests/api/safety tests/features/accounts tests/unit/test_credentials.py"),
    Guard("token: one that is over is none", _CREDENTIALS,
          "if token.expires_at is not None and token.expires_at <= self._clock():", "if False:",
          "tests/features/accounts/test_tokens.py tests/unit/test_credentials.py"),
    Guard("session: one that is over is none", _CREDENTIALS,
          "if session is None or session.expires_at <= self._clock():", "if session is None:",
          "tests/api/safety/test_sessions.py tests/unit/test_credentials.py"),
    Guard("origin: another page can't use the service", _AUTH,
          'if not _is_own_origin(headers) and headers["origin"] not in self.pages:', "if False:",
          "tests/api/safety/test_safety.py"),
    Guard("origin: another host name is refused", _AUTH,
          "if host not in LOOPBACK:", "if False:", "tests/api/safety/test_origins.py tests/api/safety/test_safety.py"),
    Guard("mask: a value of env is hidden", "scheduler/specs/env_masking.py",
          "{name: value if _is_harmless(name) else MASK for name, value in env.items()}", "dict(env)",
          "tests/api/safety/test_secrets.py tests/api/safety/test_command_masking.py"),
    Guard("mask: a password in a URL is hidden", "scheduler/core/planning/command_masking.py",
          "text = _USER_INFO.sub(_without_user_info, text)", "pass",
          "tests/api/safety/test_command_masking.py tests/unit/test_log_masking.py"),
    Guard("mask: a mask is no value", "scheduler/specs/env_masking.py",
          "if value == MASK:", "if False:", "tests/api/safety/test_secrets.py tests/api/test_jobs.py"),
    Guard("limit: GPUs at once", _QUOTAS,
          "return _too_many(job, quotas, held) if _left(job, quotas, held) < _need(job) else None", "return None",
          "tests/unit/policies/test_quotas.py tests/features/accounts/test_quotas.py"),
    Guard("limit: GPU-hours of a week", _QUOTAS,
          "if most is not None and used >= most:", "if False:",
          "tests/unit/policies/test_quotas.py tests/features/accounts/test_quotas.py"),
    Guard("limit: bytes of a body", "api/edge/bodies.py",
          "if len(body) > self.size:", "if False:",
          "tests/unit/test_body_bounds.py"),
    Guard("limit: values of a body", "api/edge/bodies.py",
          "if _separators(body) > self.values and", "if False and",
          "tests/unit/test_body_bounds.py"),
    Guard("path: data sets stay off the system's folders", _LIMITS,
          'if any(path == place or path.startswith(f"{place}/") for place in _OURS):', "if False:",
          "tests/api/test_data_sets.py tests/data/test_data_in_jobs.py"),
    Guard("path: data sets can't climb", _LIMITS,
          """or ".." in target.split("/") or""", "or",
          "tests/api/test_data_sets.py tests/data/test_data_in_jobs.py"),
    Guard("write: who has no folder to write gets none", "scheduler/control/task_spec.py",
          "if may_write else None", "", "tests/data/test_writable.py"),
    Guard("health: a job leaves a GPU with a fault", "scheduler/core/planning/evictions.py",
          "if faulty is not None:", "if False and faulty is not None:",
          "tests/unit/core tests/cluster/test_monitor.py"),
]  # fmt: skip


def copy_of_project(folder: Path) -> Path:
    """What the tests need of it: all but what is made."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def is_noticed(guard: Guard, copy: Path) -> bool:
    """Whether a test of `make test` fails without it. Raises ValueError where the code has changed."""
    path = copy / guard.file
    code = path.read_text()
    if code.count(guard.old) != 1:
        raise ValueError(f"{guard.file} has {guard.old!r} {code.count(guard.old)} times: write the guard anew")
    path.write_text(code.replace(guard.old, guard.new))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "--tier", "test", "-p", "no:cacheprovider",
             *guard.tests.split()],
            cwd=copy, env={**os.environ, "PYTHONPATH": str(copy / "src")}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        path.write_text(code)
    if done.returncode not in (0, 1):
        raise ValueError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 1


def main(words: list[str]) -> int:
    chosen = [guard for guard in GUARDS if all(word in guard.name for word in words)]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="guards-") as folder:
        copy = copy_of_project(Path(folder))
        for guard in chosen:
            began = time.monotonic()
            try:
                outcome = "noticed" if is_noticed(guard, copy) else "NOT NOTICED"
            except ValueError as error:
                outcome = f"NOT TRIED: {error}"
            missed += outcome != "noticed"
            print(f"{time.monotonic() - began:5.0f} s  {guard.name}: {outcome}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} guards are held by tests")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
