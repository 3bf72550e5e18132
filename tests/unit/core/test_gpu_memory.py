"""Jobs that share a GPU are predicted to fit into its memory together, or don't share it."""

import pytest
from builders import cluster_state, gpu_record, host_record, job, job_record, snapshot, task_record
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.metrics.probe.readings import GpuProcess, GpuReading
from schedulearn.scheduler.core.model import HostView
from schedulearn.scheduler.core.planning.placement import (
    MEMORY_MARGIN,
    GpuMemory,
    GpuState,
    gpu_memory,
    place,
    predicted_memory,
)
from schedulearn.scheduler.core.planning.snapshot import build_snapshot
from schedulearn.scheduler.core.policy import plan_faults
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.telemetry.gpu_memory import GpuMemoryPeaks, memory_by_task

GIB = 1 << 30
SHARING = ("fifo", "round-robin", "gandiva")


def host(left: tuple[int, ...], jobs: tuple[int, ...]) -> HostView:
    return HostView("h", len(left), gpu_memory_left=left, gpu_jobs=jobs)


@pytest.mark.parametrize(
    ("own", "family", "asked", "expected"),
    [(None, None, None, None), (3, None, None, 3), (None, 5, 2, 5), (None, None, 2, 2), (7, 5, None, 7), (1, 5, 9, 5)],
)
def test_what_is_predicted(own: int | None, family: int | None, asked: int | None, expected: int | None) -> None:
    assert predicted_memory(own, family, asked) == expected


def test_a_snapshot_tells_what_is_left_of_shared_gpus() -> None:
    state = cluster_state(
        hosts=[host_record()],
        gpus=[gpu_record(memory_bytes=10 * GIB), gpu_record("GPU-1", ordinal=1, memory_bytes=10 * GIB)],
        jobs={name: job_record(name) for name in ("j", "k")},
        tasks=[task_record("j")],
        leases={"GPU-0": {0: "schedulearn-j-1-0"}},
    )
    memory = gpu_memory(state, {"j": 4 * GIB, "k": 6 * GIB})
    seen = build_snapshot(state, {"h1"}, lambda uuid: None, 10.0, memory=memory)
    assert seen.hosts[0].gpu_memory_left == (5 * GIB, 9 * GIB)
    assert {view.id: view.gpu_memory for view in seen.jobs} == {"j": 4 * GIB, "k": 6 * GIB}
    alone = build_snapshot(state, {"h1"}, lambda uuid: None, 10.0)
    assert (alone.hosts[0].gpu_memory_left, alone.jobs[0].gpu_memory) == ((), None), "nobody shares GPUs"


@pytest.mark.parametrize("name", SHARING)
def test_a_job_shares_only_what_it_fits_beside_and_is_told_why_it_waits(name: str) -> None:
    policy = make_policy(name, jobs_per_gpu=2)
    runs = [
        job("a", allocation={"h": 1}, gpu_indices={"h": (0,)}),
        job("b", allocation={"h": 1}, gpu_indices={"h": (1,)}),
    ]
    hosts = [host((3 * GIB, 6 * GIB), (1, 1))]
    fits = policy.allocate(snapshot([*runs, job("c", at=1.0, gpu_memory=5 * GIB)], hosts))
    assert fits.allocations["c"] == {"h": 1}
    full = policy.allocate(snapshot([*runs, job("c", at=1.0, gpu_memory=7 * GIB)], hosts))
    assert "c" not in full.allocations
    assert "predicted to use 7.0 GiB" in full.reasons["c"]
    assert "at most 6.0 GiB is left on the 2 GPUs" in full.reasons["c"]
    assert "c" in policy.allocate(snapshot([*runs, job("c", at=1.0)], hosts)).allocations, "nobody knows what it takes"
    assert "c" in policy.allocate(snapshot([job("c", gpu_memory=99 * GIB)], [host((9 * GIB,), (0,))])).allocations


sizes = st.one_of(st.none(), st.integers(1, 12))


@given(
    name=st.sampled_from(SHARING),
    slots=st.integers(1, 4),
    memory=st.lists(st.integers(4, 12), min_size=1, max_size=4),
    needs=st.lists(st.tuples(st.integers(1, 3), sizes), max_size=8),
)
def test_no_gpu_gets_jobs_that_are_predicted_not_to_fit(
    name: str, slots: int, memory: list[int], needs: list[tuple[int, int | None]]
) -> None:
    """Policy and placement, turn after turn, each with the jobs that the one before has started."""
    known = {f"j{i}": size * GIB for i, (_, size) in enumerate(needs) if size is not None}
    gpus = [gpu_record(f"G{i}", ordinal=i, memory_bytes=size * GIB) for i, size in enumerate(memory)]
    jobs = {
        f"j{i}": job_record(f"j{i}", "queued", required_gpus=gpus_of, submitted_at=float(i), attempt=0)
        for i, (gpus_of, _) in enumerate(needs)
    }
    leases: dict[str, dict[int, str]] = {}
    tasks = []
    policy = make_policy(name, jobs_per_gpu=slots)
    for _ in range(len(needs) + 1):
        state = cluster_state(hosts=[host_record()], gpus=gpus, jobs=jobs, tasks=tasks, leases=leases)
        left = gpu_memory(state, known)
        seen = build_snapshot(state, {"h1"}, lambda uuid: None, 100.0, memory=left if policy.shares_gpus else None)
        plan = policy.allocate(seen)
        assert plan_faults(seen, plan) == []
        wanted = [(each, to) for each, to in plan.allocations.items() if not any(t.job_id == each for t in tasks)]
        states = [
            GpuState(g.uuid, "h1", g.ordinal, frozenset(leases.get(g.uuid, {})), None, None, None, left.left[g.uuid])
            for g in gpus
        ]
        started = place(wanted, states, plan.jobs_per_gpu, plan.max_utilization, known)
        for each, placement in started.items():
            claims = placement["h1"]
            tasks.append(task_record(each, gpu_uuids=[claim.gpu_uuid for claim in claims]))
            jobs[each] = job_record(each, required_gpus=len(claims), submitted_at=jobs[each].submitted_at)
            for claim in claims:
                assert claim.slot not in leases.get(claim.gpu_uuid, {})
                leases.setdefault(claim.gpu_uuid, {})[claim.slot] = tasks[-1].id
        for gpu in gpus:
            there = [task.job_id for task in tasks if gpu.uuid in task.gpu_uuids]
            together = sum(known.get(each, 0) for each in there)
            assert len(there) <= max(1, slots)
            assert len(there) < 2 or together <= gpu.memory_bytes * (1 - MEMORY_MARGIN), there
        if not started:
            break


def test_the_last_check_refuses_what_no_longer_fits() -> None:
    """A plan that was made of something else: the job is left to the next turn."""
    gpu = GpuState("G", "h", 0, frozenset({0}), memory_left=4)
    assert place([("j", {"h": 1})], [gpu], 2, needs={"j": 5}) == {}
    assert list(place([("j", {"h": 1})], [gpu], 2, needs={"j": 4})) == ["j"]
    assert list(place([("i", {"h": 1}), ("j", {"h": 1})], [gpu], 3, needs={"i": 3, "j": 2})) == ["i"]
    assert GpuMemory().left == {}


def test_memory_is_told_by_process_or_is_all_that_is_used() -> None:
    mine, other = "schedulearn-j-1-0", "schedulearn-k-1-0"
    reading = GpuReading(
        "G", memory_bytes=900.0, processes=(
            GpuProcess(1, memory_bytes=100, task=mine), GpuProcess(2, memory_bytes=50, task=mine),
            GpuProcess(3, memory_bytes=400, task=other), GpuProcess(4, memory_bytes=300),
        ),
    )  # fmt: skip
    assert memory_by_task(reading, [mine, other]) == {mine: 150, other: 400}
    assert memory_by_task(reading._replace(processes=None), [mine]) == {mine: 900}
    assert memory_by_task(reading._replace(processes=None), [mine, other]) == {}, "nobody can tell whose it is"
    peaks = GpuMemoryPeaks()
    peaks.notice([task_record("j", gpu_uuids=["G", "S"])], left_out={"S"})
    for used in (100.0, 700.0, 200.0):
        peaks.look(lambda uuid, used=used: GpuReading(uuid, memory_bytes=used))  # type: ignore[misc]
    assert peaks.take() == {mine: 700}
    assert peaks.take() == {}


def test_jobs_of_a_policy_that_shares_nothing_are_not_looked_up() -> None:
    assert [make_policy(name, jobs_per_gpu=1).shares_gpus for name in SHARING] == [False] * 3
    assert [make_policy(name, jobs_per_gpu=2).shares_gpus for name in SHARING] == [True] * 3
    assert not make_policy("goodput").shares_gpus
