"""GPUs that are kept for the first job that waits, so that jobs behind it hold it up never (EASY)."""

from __future__ import annotations

from collections.abc import Mapping

from builders import PowerLaw, host, job, snapshot
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.model import Allocation, JobView, Plan, Snapshot
from schedulearn.scheduler.policies.registry import make_policy

FIFO = make_policy("fifo")


def runs(id: str, on: dict[str, int], left: float | None, **fields: object) -> JobView:
    """A rigid job that runs; `left`: seconds until its end."""
    gpus = sum(on.values())
    remaining = None if left is None else left * gpus
    return job(id, gpus=gpus, allocation=on, remaining=remaining, **fields)


def waits(id: str, at: float, gpus: int = 1, takes: float | None = None, **fields: object) -> JobView:
    return job(id, at=at, gpus=gpus, remaining=None if takes is None else takes * gpus, **fields)


def started(jobs: list[JobView], hosts: Mapping[str, int]) -> dict[str, Allocation]:
    plan = FIFO.allocate(snapshot(jobs, [host(name, gpus) for name, gpus in hosts.items()]))
    return {each.id: plan.allocations[each.id] for each in jobs if not each.allocation and each.id in plan.allocations}


def test_a_job_that_ends_before_the_reserved_time_passes() -> None:
    first = [runs("a", {"h": 6}, 100.0), waits("big", 1, 8, 50.0)]
    assert started([*first, waits("short", 2, 2, 100.0)], {"h": 8}) == {"short": {"h": 2}}
    assert started([*first, waits("long", 2, 2, 101.0)], {"h": 8}) == {}
    assert started([*first, waits("unknown", 2, 2)], {"h": 8}) == {}, "it might run for ever"


def test_a_longer_one_passes_where_it_leaves_the_reserved_gpus() -> None:
    first = [runs("a", {"h": 6}, 100.0), waits("big", 1, 6, 50.0)]
    assert started([*first, waits("x", 2, 2), waits("y", 3, 1)], {"h": 8}) == {"x": {"h": 2}}
    hosts = {"h": 8, "other": 2}
    assert started([*first, waits("x", 2, 2), waits("y", 3, 2), waits("z", 4, 1)], hosts) == {
        "x": {"h": 2},
        "y": {"other": 2},
    }


def test_it_is_reserved_for_the_first_time_at_which_enough_is_free_on_one_host() -> None:
    """Four GPUs are free after 100 s, but on two hosts."""
    running = [runs("a", {"g": 2}, 100.0), runs("b", {"h": 2}, 100.0), runs("c", {"g": 2}, 300.0)]
    running.append(runs("d", {"h": 2}, 200.0))
    hosts = {"g": 4, "h": 4, "small": 1}
    jobs = [*running, waits("big", 1, 4), waits("small", 2, 1, 1e9)]
    assert started(jobs, hosts) == {"small": {"small": 1}}
    plan = FIFO.allocate(snapshot(jobs, [host(name, gpus) for name, gpus in hosts.items()]))
    assert plan.reasons["big"].endswith("GPUs are reserved for it: it starts when d ends.")


def test_a_job_over_several_hosts_is_waited_for_likewise() -> None:
    running = [runs("a", {"g": 4}, 100.0), runs("b", {"h": 3}, 500.0)]
    jobs = [*running, waits("big", 1, 8), waits("long", 2, 1, 600.0), waits("short", 3, 1, 400.0)]
    assert started(jobs, {"g": 4, "h": 4}) == {"short": {"h": 1}}


def test_a_running_job_of_which_nothing_is_known_takes_as_long_again() -> None:
    first = [runs("a", {"h": 7}, None, run_seconds=5000.0), waits("big", 1, 8)]
    assert started([*first, waits("short", 2, 1, 5000.0)], {"h": 8}) == {"short": {"h": 1}}
    assert started([*first, waits("long", 2, 1, 5001.0)], {"h": 8}) == {}


def test_jobs_that_start_now_count_too() -> None:
    """`new` starts in this very plan, and `big` waits for its end."""
    jobs = [waits("new", 1, 3, 100.0), waits("big", 2, 4), waits("short", 3, 1, 99.0), waits("long", 4, 1, 101.0)]
    assert started(jobs, {"h": 4}) == {"new": {"h": 3}, "short": {"h": 1}}


def test_the_length_of_an_elastic_job_is_at_its_measured_speed() -> None:
    """500 s on one GPU are 250 s on its four: it speeds up by two."""
    first = [job("a", gpus=4, elastic=True, allocation={"h": 4}, goodput=PowerLaw(0.5), remaining=500.0)]
    first.append(waits("big", 1, 8))
    assert started([*first, waits("short", 2, 1, 249.0)], {"h": 8}) == {"short": {"h": 1}}
    assert started([*first, waits("long", 2, 1, 251.0)], {"h": 8}) == {}


def test_who_is_held_back_is_told_by_whom() -> None:
    jobs = [runs("a", {"h": 6}, 100.0), waits("big", 1, 8, 50.0), waits("long", 2, 2, 101.0), waits("wide", 3, 3)]
    plan = FIFO.allocate(snapshot(jobs, [host("h", 8)]))
    assert plan.reasons["long"] == (
        "It may run for longer than a, and would then hold up big, which needs 8 GPUs and comes first."
    )
    assert "It needs 3 GPUs on one host" in plan.reasons["wide"]


def test_with_another_order_the_first_of_that_is_waited_for() -> None:
    running = runs("a", {"h": 6}, 100.0)
    jobs = [running, waits("old", 1, 2, 200.0, priority=10), waits("urgent", 2, 8, priority=90)]
    plan = make_policy("priority").allocate(snapshot(jobs, [host("h", 8)]))
    assert set(plan.allocations) == {"a"}


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Hosts with running jobs on them, a queue, and lengths that are all known."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    jobs: list[JobView] = []
    for index, size in enumerate(sizes):
        left = size
        while left and draw(st.booleans()):
            gpus = draw(st.integers(1, left))
            left -= gpus
            jobs.append(runs(f"r{len(jobs)}", {f"h{index}": gpus}, draw(st.integers(1, 50)) * 10.0))
    for number in range(draw(st.integers(1, 8))):
        jobs.append(waits(f"w{number}", number, draw(st.integers(1, 12)), draw(st.integers(1, 50)) * 10.0))
    return snapshot(jobs, [host(f"h{index}", size) for index, size in enumerate(sizes)])


@given(clusters())
def test_nobody_who_passes_holds_up_the_first_that_waits(state: Snapshot) -> None:
    """It starts as early as if nobody had passed, when all jobs end as expected and nothing else comes."""
    plan, strict = FIFO.allocate(state), make_policy("fifo", backfill="none").allocate(state)
    never = "unsatisfiable_now"
    blocked = [each for each in state.jobs if each.id not in strict.allocations]
    blocked = [each for each in blocked if getattr(strict.reasons[each.id], "code", "") != never]
    if blocked:
        first = blocked[0]
        assert _starts(state, plan, first) == _starts(state, strict, first)


def _starts(state: Snapshot, plan: Plan, first: JobView) -> float | None:
    """Seconds until `first` starts, if it is the only one that waits behind the jobs of `plan`."""
    held = [(job.remaining or 0.0, plan.allocations[job.id]) for job in state.jobs if job.id in plan.allocations]
    for end in sorted({seconds / sum(where.values()) for seconds, where in held}):
        live = [
            runs(f"l{number}", dict(where), 1.0)
            for number, (seconds, where) in enumerate(held)
            if seconds / sum(where.values()) > end
        ]
        if first.id in FIFO.allocate(snapshot([*live, first], list(state.hosts))).allocations:
            return end
    return None
