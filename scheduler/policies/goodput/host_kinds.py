"""Kinds of hosts: of one GPU type, and alike for each job that can't use every host. Pure.

Sizes are chosen before hosts, from the GPUs of each type. If jobs can use only some hosts of a type, those hosts become
a kind of their own, as if their GPUs were of another type. All parts of the policy then know what these jobs compete
for. Without such jobs, kinds are types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice

from schedulearn.scheduler.core.feasible_hosts import suits, suits_type
from schedulearn.scheduler.core.model import HostView, JobView, Snapshot

_MAX_LIMITS = 16
"""Maximum sets of hosts by which types are split. `core.feasible_hosts` sees to the jobs of further sets."""
_MAX_CHOICES = 1000
"""Maximum number of jobs times kinds: each kind adds choices to each job, and a decision must stay fast."""
_MARK = "\0"


def by_kind(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with kinds as GPU types, and `JobView.unfit` by kind.

    A type is not split where a waiting job would then find no kind with enough GPUs: it would wait for ever.
    """
    limited = [job for job in snapshot.jobs if (job.unfit or job.gpu_type) and (job.elastic or not job.allocation)]
    if not limited:
        return snapshot
    usable = _usable_hosts(limited, snapshot.hosts)
    kind_of = {host.id: host.gpu_type for host in snapshot.hosts}
    demand = _Demand(snapshot, usable)
    by_order = sorted(limited, key=lambda job: job.by_priority)
    for hosts in islice(dict.fromkeys(usable[job.id] for job in by_order), _MAX_LIMITS):
        finer = _split(kind_of, hosts)
        if len(snapshot.jobs) * len(set(finer.values())) > _MAX_CHOICES:
            break
        if finer != kind_of and demand.is_met(kind_of, finer):
            kind_of = finer
    members: dict[str, set[str]] = {}
    for host_id, kind in kind_of.items():
        members.setdefault(kind, set()).add(host_id)
    unfit = {
        hosts: {kind: "" for kind, those in members.items() if hosts.isdisjoint(those)}
        for hosts in set(usable.values())
    }
    return replace(
        snapshot,
        hosts=tuple(replace(host, gpu_type=kind_of[host.id]) for host in snapshot.hosts),
        jobs=tuple(
            replace(job, gpu_type=None, unfit=unfit[usable[job.id]]) if job.id in usable else job
            for job in snapshot.jobs
        ),
    )


def type_of(kind: str) -> str:
    """Return the GPU type of a kind."""
    return kind.partition(_MARK)[0]


def suits_kind(job: JobView, kind: str) -> bool:
    """Return whether a job may have GPUs of a kind."""
    return kind not in job.unfit and suits_type(job, kind)


def _usable_hosts(jobs: Iterable[JobView], hosts: Sequence[HostView]) -> dict[str, frozenset[str]]:
    """Return job id -> hosts that it may use. Equal limits are judged once."""
    known: dict[tuple[str | None, bool, frozenset[str]], frozenset[str]] = {}
    found = {}
    for job in jobs:
        key = (job.gpu_type, job.needed_gpus > 1, frozenset(job.unfit))
        if key not in known:
            known[key] = frozenset(host.id for host in hosts if suits(host, job))
        found[job.id] = known[key]
    return found


def _split(kind_of: Mapping[str, str], hosts: Set[str]) -> dict[str, str]:
    """Return the kinds, each of which has all or none of its hosts among `hosts`."""
    inside = {kind for host, kind in kind_of.items() if host in hosts}
    torn = sorted({kind for host, kind in kind_of.items() if host not in hosts} & inside)
    first = len(set(kind_of.values()))
    names = {kind: f"{type_of(kind)}{_MARK}{first + at}" for at, kind in enumerate(torn)}
    return {host: names.get(kind, kind) if host in hosts else kind for host, kind in kind_of.items()}


class _Demand:
    """Numbers of GPUs that waiting jobs need at once."""

    def __init__(self, snapshot: Snapshot, usable: Mapping[str, frozenset[str]]) -> None:
        self._gpus = {host.id: host.gpus for host in snapshot.hosts if host.open and host.gpus}
        everywhere = frozenset(self._gpus)
        self._needs: dict[frozenset[str], set[int]] = {}
        for job in snapshot.jobs:
            if not job.allocation:
                self._needs.setdefault(usable.get(job.id, everywhere), set()).add(job.needed_gpus)

    def is_met(self, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Return whether each job that one kind can hold `before` finds one `after` too."""
        for hosts, needs in self._needs.items():
            had, has = self._largest(hosts, before), self._largest(hosts, after)
            if any(has < need <= had for need in needs):
                return False
        return True

    def _largest(self, hosts: Set[str], kind_of: Mapping[str, str]) -> int:
        found: dict[str, int] = {}
        for host in hosts:
            if host in self._gpus:
                found[kind_of[host]] = found.get(kind_of[host], 0) + self._gpus[host]
        return max(found.values(), default=0)
