"""Where jobs start, by the records of a cluster and plain rules: labels, memory, windows, empty hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from builders import cluster_state, gpu_record, host_record, job_record, task_record
from hypothesis import given, note
from hypothesis import strategies as st

from schedulearn.scheduler.core.cluster_state import ClusterState, Host, Job, MaintenanceWindow
from schedulearn.scheduler.core.model import Plan
from schedulearn.scheduler.core.pipeline import decide, layers
from schedulearn.scheduler.core.planning.cpu_only import CpuOnly
from schedulearn.scheduler.core.planning.snapshot import build_snapshot
from schedulearn.scheduler.core.planning.windows import UNKNOWN_S
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.core.states import HostState
from schedulearn.scheduler.core.task import GIB
from schedulearn.scheduler.policies.registry import POLICIES, make_policy

NOW = 100_000.0
ALL = [make_policy(name) for name in sorted(POLICIES)]
TERMS = [["room=a"], ["h0", "h1"], ["room=a", "room=b", "rack=1"], ["h2", "room=b"]]


@st.composite
def states(draw: st.DrawFn) -> ClusterState:
    """Some hosts have GPUs of two sizes; jobs run or wait, with and without GPUs."""
    hosts, gpus = [], []
    for at in range(draw(st.integers(1, 4))):
        labels = draw(st.fixed_dictionaries({}, optional={"room": st.sampled_from("ab"), "rack": st.just("1")}))
        cordoned = draw(st.integers(0, 5)) == 0
        hosts.append(host_record(f"h{at}", labels=labels, state=HostState.CORDONED if cordoned else HostState.ACTIVE))
        for ordinal in range(draw(st.integers(0, 4))):
            kind, size = draw(st.sampled_from([("a100", 40), ("a100", 40), ("v100", 16)]))
            uuid = f"GPU-{at}-{ordinal}"
            gpus.append(gpu_record(uuid, f"h{at}", ordinal=ordinal, type=kind, memory_bytes=int(size * GIB * 0.95)))
    free = {gpu.uuid: gpu.host_id for gpu in gpus}
    jobs: dict[str, Job] = {}
    tasks, leases = [], {}
    alone: set[str] = set()
    for at in range(draw(st.integers(1, 8))):
        name, elastic, need = f"j{at}", draw(st.booleans()), draw(st.integers(0, 3))
        elastic = elastic and need > 0
        wanted: dict[str, Any] = draw(
            st.fixed_dictionaries(
                {},
                optional={"hosts": st.sampled_from(TERMS), "exclude_hosts": st.sampled_from(TERMS)}
                | ({"gpu_memory_min": st.sampled_from([16 * GIB, 40 * GIB])} if need else {})
                | ({"exclusive": st.just(True)} if need and not elastic else {}),
            )
        )
        fields: dict[str, Any] = {
            "required_gpus": need, "elastic": elastic, "submitted_at": NOW - 100 + at,
            "priority": draw(st.sampled_from([10, 50])), "host_constraints": wanted or None,
            "max_duration": draw(st.sampled_from([None, 600.0, 7200.0])),
        }  # fmt: skip
        if elastic:
            fields |= {"min_gpus": 1, "max_gpus": 8}
        to = draw(st.sampled_from([each.id for each in hosts]))
        mine = [uuid for uuid, there in free.items() if there == to][:need]
        used = {task.host_id for task in tasks}
        fits = len(mine) == need and to not in alone and not (wanted.get("exclusive") and to in used)
        if fits and draw(st.booleans()):
            jobs[name] = job_record(name, "running", generation=1, **fields)
            tasks.append(task_record(name, host_id=to, gpu_uuids=mine, started_at=NOW - 50))
            leases |= {uuid: {0: tasks[-1].id} for uuid in mine}
            free = {uuid: there for uuid, there in free.items() if uuid not in mine}
            alone |= {to} if wanted.get("exclusive") else set()
        else:
            jobs[name] = job_record(name, "queued", attempt=0, **fields)
    windows = []
    for at in range(draw(st.integers(0, 2))):
        begin = NOW + draw(st.sampled_from([-60.0, 300.0, 3600.0, 20_000.0]))
        covers = draw(st.sampled_from([[], ["h0"], ["h1", "gone"]]))
        windows.append(MaintenanceWindow(at, covers, begin, begin + 1800, "", "", "UTC", 0.0, []))
    return cluster_state(hosts=hosts, gpus=gpus, jobs=jobs, tasks=tasks, leases=leases, windows=windows)


def matches(terms: list[str], host: Host, *, every: bool) -> bool:
    """Return whether a host is one that the terms name. `every`: it must have each label that they name."""
    names = {term for term in terms if "=" not in term}
    pairs = [term.split("=") for term in terms if "=" in term]
    keys = {key for key, _ in pairs}
    has = {key for key in keys if [key, host.labels.get(key)] in pairs}
    if every:
        return (not names or host.id in names) and has == keys
    return host.id in names or bool(has)


def faults(state: ClusterState, job: Job, host: Host, part: str) -> list[str]:
    """Return why a job may not start on a host."""
    wanted: Any = job.host_constraints or {}
    found = [] if host.active else ["cordoned"]
    if wanted.get("hosts") and not matches(wanted["hosts"], host, every=True):
        found.append("not its hosts")
    if matches(wanted.get("exclude_hosts", []), host, every=False):
        found.append("excluded")
    kind = part.partition(" / ")[2]
    small = [gpu for gpu in state.gpus if gpu.host_id == host.id and (not kind or gpu.type == kind)]
    if any(gpu.memory_bytes < 0.9 * wanted.get("gpu_memory_min", 0) for gpu in small):
        found.append("too small")
    longest = 0.0 if job.elastic else UNKNOWN_S if job.max_duration is None else job.max_duration
    for window in state.windows:
        if (not window.hosts or host.id in window.hosts) and window.starts_at < NOW + max(longest, 1e-6):
            found.append("maintenance")
    return found


def decided(state: ClusterState, policy: Policy) -> Plan:
    ready = {host.id for host in state.hosts}
    snapshot = build_snapshot(state, ready, lambda uuid: None, NOW, caps_growth=policy.resizes)
    cpu_only = CpuOnly(state, ready, {}, 3, lambda job, host: True, now=NOW)
    return decide(policy.allocate, snapshot, layers(cpu_only=cpu_only))


@given(states(), st.sampled_from(ALL))
def test_jobs_start_only_where_plain_rules_allow_it(state: ClusterState, policy: Policy) -> None:
    plan = decided(state, policy)
    hosts = {host.id: host for host in state.hosts}
    before = {(task.job_id, task.host_id) for task in state.tasks}
    on = {host: {job for job, there in before if there == host} for host in hosts}
    note(f"{policy.name}: {plan}")
    for job_id, allocation in plan.allocations.items():
        for part in allocation:
            host = hosts[part.partition(" / ")[0]]
            on[host.id].add(job_id)
            if (job_id, host.id) not in before:
                assert faults(state, state.jobs[job_id], host, part) == [], (job_id, part)
    for host_id, there in on.items():
        starts = {job_id for job_id in there if (job_id, host_id) not in before}
        alone = {job_id for job_id in there if (state.jobs[job_id].host_constraints or {}).get("exclusive")}
        assert not (starts and alone and len(there) > 1), (host_id, there)


@given(states(), st.sampled_from(ALL))
def test_the_order_of_records_changes_no_decision(state: ClusterState, policy: Policy) -> None:
    def started(seen: ClusterState) -> Any:
        return {job: dict(to) for job, to in decided(seen, policy).allocations.items() if to}

    assert started(state) == started(replace(state, jobs=dict(reversed(state.jobs.items()))))
