"""Early failures of GPU jobs, counted by host and GPU. Pure.

A host or GPU pauses after each failure, so that the job goes elsewhere. After `MAX_FAILURES` in a row it takes no more
GPU jobs until it is opened again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from schedulearn.scheduler.core.cluster_state import EarlyFailure, Gpu, Host, Job, run_seconds
from schedulearn.scheduler.core.outcomes.blame import OUT_OF_MEMORY, Blame, of_output, of_start
from schedulearn.scheduler.core.outcomes.findings import Finding, TaskEnded
from schedulearn.scheduler.core.states import Reason

MAX_FAILURES = 3
REST_S = (10.0, 30.0)
"""Pause in seconds after the first failure, and after the second."""
MAX_MOVES = 2
"""Maximum number of moves of a job because of its output, since anybody can write such output."""
EARLY_S = 300.0
"""Maximum run time of an early failure, seconds. A job that ran longer has used its GPUs, so they are healthy."""
_WRITTEN = "output of "


@dataclass(frozen=True)
class FailuresChange:
    """New list of failures of a host, or of one of its GPUs."""

    host_id: str
    gpu_uuid: str
    """Empty for the host itself."""
    failures: Sequence[EarlyFailure]
    fault: str = ""
    """Why the host or GPU takes no more GPU jobs from now on; empty for no change."""


def rests_until(failures: Sequence[EarlyFailure], now: float) -> float | None:
    """Return when jobs may start there again; None for now.

    A failure in the future was recorded before the clock was set back, and is ignored.
    """
    if not failures:
        return None
    last = failures[-1]["at"]
    end = last + REST_S[min(len(failures), len(REST_S)) - 1]
    return end if last <= now < end else None


def takes_gpu_jobs(host: Host, now: float) -> bool:
    """Return whether early failures allow GPU jobs to start on a host."""
    return not host.gpu_fault and rests_until(host.gpu_failures, now) is None


def is_open(gpu: Gpu, hosts: Mapping[str, Host], now: float) -> bool:
    """Return whether a job may start on a GPU."""
    host = hosts.get(gpu.host_id)
    return host is not None and takes_gpu_jobs(host, now) and gpu.is_usable and rests_until(gpu.failures, now) is None


def next_openings(hosts: Iterable[Host], gpus: Iterable[Gpu], now: float) -> list[float]:
    """Return the seconds until each pause ends."""
    ends = [rests_until(host.gpu_failures, now) for host in hosts] + [rests_until(gpu.failures, now) for gpu in gpus]
    return [end - now for end in ends if end is not None]


def explained(
    ended: TaskEnded,
    job: Job,
    said: Callable[[str], bytes | None],
    real: Set[str],
    stranger: Callable[[str], str] = lambda uuid: "",
) -> TaskEnded:
    """Return the end of a task with the cause that its output reveals.

    If the cause is its host or GPU, the job is not blamed, unless its output said so elsewhere too. `said` returns the
    end of a task's output. `real` are GPUs that are not simulated. `stranger` returns the foreign holder of a GPU's
    memory.
    """
    if ended.outcome is not Reason.COMMAND_FAILED or ended.task.stop or not ended.task.gpu_uuids:
        return ended
    host, output = ended.task.host_id, said(ended.task.id) or b""
    if OUT_OF_MEMORY.search(output) and (who := next(filter(None, map(stranger, ended.task.gpu_uuids)), "")):
        error = f"on {host} its GPU ran out of memory, which others use too: {who}"
        moves = job.losses < MAX_MOVES
        return replace(ended, error=error, outcome=Reason.HOST_FAULT if moves else ended.outcome)
    found = of_start(ended.error, host) or of_output(output, host)
    if found is None or (found.cause.blame is not Blame.USER and not set(ended.task.gpu_uuids) <= real):
        return ended
    ended = replace(ended, error=found.sentence)
    ran = run_seconds(ended.task, ended.finished_at or 0.0, ended.started_at)
    if found.cause.blame not in (Blame.HOST, Blame.GPU) or ran > EARLY_S or job.losses >= MAX_MOVES:
        return ended
    # A user who writes such lines in jobs of many families must not take hosts from others.
    return replace(ended, outcome=Reason.HOST_FAULT, blame=found.cause.blame, counts_as=f"{_WRITTEN}{job.user}")


def changes_after(
    findings: Sequence[Finding], hosts: Sequence[Host], gpus: Sequence[Gpu], now: float
) -> list[FailuresChange]:
    """Return the changes of hosts and GPUs that follow from ended tasks."""
    of_host = {host.id: list(host.gpu_failures) for host in hosts}
    of_gpu = {gpu.uuid: list(gpu.failures) for gpu in gpus}
    faults: dict[str, str] = {}
    before = (dict(of_host), dict(of_gpu))
    for ended in findings:
        if not isinstance(ended, TaskEnded) or not ended.task.gpu_uuids:
            continue
        if ended.blame in (Blame.HOST, Blame.GPU):
            known = of_host if ended.blame is Blame.HOST else of_gpu
            for name in [ended.task.host_id] if ended.blame is Blame.HOST else _blamed_gpus(ended):
                if name in known and (more := _with(known[name], ended, now)) is not None:
                    known[name] = more
                    if len(more) >= MAX_FAILURES:
                        faults[name] = ended.error
        elif _worked(ended, now):
            of_host.update({ended.task.host_id: []} if ended.task.host_id in of_host else {})
            of_gpu.update({uuid: [] for uuid in ended.task.gpu_uuids if uuid in of_gpu})
    return [
        FailuresChange(host.id, "", of_host[host.id], faults.get(host.id, "") if not host.gpu_fault else "")
        for host in hosts
        if of_host[host.id] != before[0][host.id]
    ] + [
        FailuresChange(gpu.host_id, gpu.uuid, of_gpu[gpu.uuid], faults.get(gpu.uuid, ""))
        for gpu in gpus
        if of_gpu[gpu.uuid] != before[1][gpu.uuid]
    ]


def _blamed_gpus(ended: TaskEnded) -> Sequence[str]:
    """Return the GPUs that the error names, or else all GPUs of the task."""
    return [uuid for uuid in ended.task.gpu_uuids if uuid in ended.error] or ended.task.gpu_uuids


def _with(failures: list[EarlyFailure], ended: TaskEnded, now: float) -> list[EarlyFailure] | None:
    """Return the failures with one more, or None if it counts already and comes from output, which anybody can write.

    A repeated error of an engine counts once too, but its host pauses again. Otherwise the job would return at once.
    """
    others = [failure for failure in failures if failure["who"] != ended.counts_as]
    if len(others) < len(failures) and ended.counts_as.startswith(_WRITTEN):
        return None
    return [*others, EarlyFailure(who=ended.counts_as, why=ended.error, at=now)]


def _worked(ended: TaskEnded, now: float) -> bool:
    ran = run_seconds(ended.task, ended.finished_at or now, ended.started_at)
    return ended.outcome is Reason.COMPLETED or ran > EARLY_S
