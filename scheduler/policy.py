"""What a policy is, which ones there are, and what a plan may not do.

A policy is a pure function of a snapshot. To write one, see docs/policies.md: one class with a `name` and
`allocate`, registered by an entry point in the group `schedulearn.policies` or named as a file in the settings.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol, TypeGuard, cast

from pydantic import TypeAdapter, ValidationError

from schedulearn.scheduler.domain import Plan, Snapshot
from schedulearn.scheduler.errors import InvalidError, UnknownPolicyError
from schedulearn.scheduler.policies.afs_l import AfsL
from schedulearn.scheduler.policies.edf import EarliestDeadlineFirst
from schedulearn.scheduler.policies.elastic_fifo import ElasticFifo
from schedulearn.scheduler.policies.elastic_srtf import ElasticShortestRemainingTimeFirst
from schedulearn.scheduler.policies.elastic_tiresias import ElasticTiresias
from schedulearn.scheduler.policies.ffdl import FfDL
from schedulearn.scheduler.policies.fifo import Fifo
from schedulearn.scheduler.policies.gandiva import Gandiva
from schedulearn.scheduler.policies.goodput import Goodput
from schedulearn.scheduler.policies.las import LeastAttainedService
from schedulearn.scheduler.policies.priority import Priority
from schedulearn.scheduler.policies.round_robin import RoundRobin
from schedulearn.scheduler.policies.srtf import ShortestRemainingTimeFirst
from schedulearn.scheduler.policies.tiresias import Tiresias
from schedulearn.scheduler.suggestions import did_you_mean


class Policy(Protocol):
    """Decides who gets how many GPUs on which host. No state, clock, randomness or I/O: `now` and `seed` are in the
    snapshot, and equal snapshots give equal plans, in whatever order their jobs stand. A policy that changes the size
    of running elastic jobs says so by a class variable `resizes = True` (see `resizes`)."""

    name: ClassVar[str]

    def allocate(self, snapshot: Snapshot) -> Plan: ...


POLICIES: dict[str, type[Policy]] = {
    "afs-l": AfsL,
    "edf": EarliestDeadlineFirst,
    "elastic-fifo": ElasticFifo,
    "elastic-srtf": ElasticShortestRemainingTimeFirst,
    "elastic-tiresias": ElasticTiresias,
    "ffdl": FfDL,
    "fifo": Fifo,
    "gandiva": Gandiva,
    "goodput": Goodput,
    "las": LeastAttainedService,
    "priority": Priority,
    "round-robin": RoundRobin,
    "srtf": ShortestRemainingTimeFirst,
    "tiresias": Tiresias,
}

_MOST_VALUES = 100  # of one parameter, nested ones and all
_LARGEST = 1 << 53  # a whole number that a float holds exactly
_LONGEST = 1000

ALIASES: Mapping[str, str] = {
    "afsl": "afs-l",
    "elastic-srjf": "elastic-srtf",
    "roundrobin": "round-robin",
    "rr": "round-robin",
    "srjf": "srtf",
}


def canonical_name(algorithm: str) -> str:
    """The registered name for what a user wrote: case, underscores and the original's spellings don't matter."""
    name = algorithm.strip().lower().replace("_", "-")
    return ALIASES.get(name, name)


def make_policy(algorithm: str, metric: str = "default", **params: Any) -> Policy:
    """The policy `algorithm` with its parameters checked. Raises as `policy_of`."""
    return policy_of(algorithm, metric, params)


def policy_of(algorithm: str, metric: str, params: Mapping[str, Any]) -> Policy:
    """`make_policy` with parameters of any name, as a request gives them.

    Raises UnknownPolicyError (with the valid names) or InvalidError (naming the metric or parameter).
    """
    cls = POLICIES.get(canonical_name(algorithm))
    if cls is None:
        raise UnknownPolicyError(
            f"there is no policy {algorithm!r}; valid: {', '.join(sorted(POLICIES))}", field="algorithm"
        )
    metrics = metrics_of(cls)
    if metric not in metrics:
        raise InvalidError(
            f"the policy {cls.name!r} has no metric {metric!r}; valid: {', '.join(metrics)}", field="metric"
        )
    known = parameters_of(cls)
    for key, value in params.items():
        if key not in known:
            valid = ", ".join(sorted(known)) or "it takes none"
            hint = did_you_mean(key, known)
            raise InvalidError(
                f"the policy {cls.name!r} has no parameter {key!r}{hint}; valid: {valid}", field=f"params.{key}"
            )
        _check_parameter(cls, key, value)
    if not dataclasses.is_dataclass(cls):
        return cls()
    given = {**params, "metric": metric} if len(metrics) > 1 else params
    try:
        return cast(Policy, TypeAdapter(cls).validate_python(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "params"
        raise InvalidError(f"parameter {where!r} of {cls.name!r}: {first['msg']}", field=f"params.{where}") from error


def _check_parameter(cls: type[Policy], key: str, value: object) -> None:
    """Raises InvalidError for what can't be stored and shown as JSON, or is too large to."""
    left, todo = _MOST_VALUES, [value]
    while todo and left:
        left -= 1
        part = todo.pop()
        if isinstance(part, float | str) and _is_endless(part):
            fault = "must be a finite number"
        elif isinstance(part, int) and abs(part) > _LARGEST:
            fault = f"must lie between -{_LARGEST} and {_LARGEST}"
        elif isinstance(part, str) and (len(part) > _LONGEST or not _encodable(part)):
            fault = f"must be text of at most {_LONGEST} characters"
        else:
            todo += [*part, *part.values()] if isinstance(part, Mapping) else part if _many(part) else []
            continue
        raise InvalidError(f"parameter {key!r} of {cls.name!r}: {fault}", field=f"params.{key}")
    if todo:
        raise InvalidError(
            f"parameter {key!r} of {cls.name!r}: holds more than {_MOST_VALUES} values", field=f"params.{key}"
        )


def _many(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, (list, tuple, set, frozenset))


def _is_endless(value: float | str) -> bool:
    """Whether it is, or would become, an infinite number or NaN."""
    try:
        return not math.isfinite(float(value[:_LONGEST] if isinstance(value, str) else value))
    except ValueError:
        return False


def _encodable(text: str) -> bool:
    """A lone surrogate, as JSON may hold, is no text."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def metrics_of(cls: type[Policy]) -> tuple[str, ...]:
    """What the policy can optimise for; most know only `default`."""
    return getattr(cls, "metrics", ("default",))


def resizes(policy: Policy | type[Policy]) -> bool:
    """Whether the policy changes the size of running elastic jobs: only then is `JobView.max_gpus` capped to what their
    profiles cover."""
    return bool(getattr(policy, "resizes", False))


def parameters_of(cls: type[Policy]) -> dict[str, dict[str, Any]]:
    """name -> {type, default, description} of each parameter, for the API and the page."""
    if not dataclasses.is_dataclass(cls):
        return {}
    return {
        f.name: {"type": str(f.type), "default": f.default, "description": f.metadata.get("doc", "")}
        for f in dataclasses.fields(cls)
        if f.name != "metric"
    }


def plan_faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Everything that `plan` does and no plan may do; empty for a lawful plan.

    The loop refuses a plan with faults as a whole, so that a user's own policy can't break an invariant.
    """
    faults: list[str] = []
    hosts = {host.id: host for host in snapshot.hosts}
    jobs = {job.id: job for job in snapshot.jobs}
    used: Counter[str] = Counter()
    for job_id, allocation in plan.allocations.items():
        job = jobs.get(job_id)
        if job is None:
            faults.append(f"job {job_id} is not in the snapshot")
            continue
        for host_id, gpus in allocation.items():
            if host_id not in hosts:
                faults.append(f"job {job_id} is put on {host_id}, which is not there")
            elif type(gpus) is not int or gpus < 1:
                faults.append(f"job {job_id} gets {gpus!r} GPUs on {host_id}")
            else:
                used[host_id] += gpus
                if gpus > hosts[host_id].gpus:
                    faults.append(f"job {job_id} gets {gpus} GPUs on {host_id}, which has {hosts[host_id].gpus}")
        total = sum(g for g in allocation.values() if type(g) is int)
        if not allocation:
            continue
        if job.elastic and not job.min_gpus <= total <= job.max_gpus and dict(allocation) != dict(job.allocation):
            faults.append(f"job {job_id} gets {total} GPUs, outside {job.min_gpus} to {job.max_gpus}")
        if not job.elastic and job.allocation and dict(allocation) != dict(job.allocation):
            faults.append(f"job {job_id} is rigid and running, and can't be resized")
        if not job.elastic and not job.allocation and total != job.required_gpus:
            faults.append(f"job {job_id} is rigid and needs {job.required_gpus} GPUs, not {total}")
    for host_id, gpus in used.items():
        capacity = hosts[host_id].gpus * plan.jobs_per_gpu
        if gpus > capacity:
            faults.append(f"{host_id} has room for {capacity} and gets {gpus}")
    return faults or (_suspension_faults(snapshot, plan) if plan.suspended else [])


def _suspension_faults(snapshot: Snapshot, plan: Plan) -> list[str]:
    """What is wrong with the jobs that `plan` suspends; `plan` is lawful else. New jobs are taken to get the emptiest
    GPUs of their hosts, those that run at once first, as placement does it."""
    without = [job_id for job_id in sorted(plan.suspended) if not plan.allocations.get(job_id)]
    faults = [f"job {job_id} is suspended without GPUs" for job_id in without]
    before = {job.id: dict(job.allocation) for job in snapshot.jobs}
    held = snapshot.held_gpus()
    on: dict[str, list[set[str]]] = {host.id: [set() for _ in range(host.gpus)] for host in snapshot.hosts}
    new = []
    for job_id, allocation in plan.allocations.items():
        if allocation and dict(allocation) == before[job_id]:
            for host_id, index in held[job_id]:
                on[host_id][index].add(job_id)
        elif allocation:
            new.append(job_id)
    for job_id in sorted(new, key=lambda job_id: job_id in plan.suspended):
        for host_id, gpus in plan.allocations[job_id].items():
            for jobs in sorted(on[host_id], key=len)[:gpus]:
                jobs.add(job_id)
                if len(jobs) > plan.jobs_per_gpu:
                    faults.append(f"job {job_id} is one of {len(jobs)} on a GPU of {host_id}")
    for host_id, gpus_of_host in on.items():
        for jobs in gpus_of_host:
            if len(jobs - plan.suspended) > 1 and jobs & plan.suspended:
                faults.append(f"jobs {', '.join(sorted(jobs - plan.suspended))} run on one GPU of {host_id} at a time")
    return faults
