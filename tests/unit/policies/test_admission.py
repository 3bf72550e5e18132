"""Rigid jobs under `goodput`: their order, reservations, and that none of them starves."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from builders import PowerLaw, host, job, snapshot

from schedulearn.scheduler.core.feasible_hosts import plan_feasible
from schedulearn.scheduler.core.model import Basis, HostView, JobView, Plan
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.application import rigid_application
from schedulearn.scheduler.sim.arguments import equal_hosts
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import TraceJob

NOW = 100_000.0
METRICS = ["default", "speed", "cost"]


def runs(id: str, gpus: int, left: float | None = None, **fields: object) -> JobView:
    """A rigid job that runs on h1; `left`: expected seconds until its end."""
    return job(id, gpus=gpus, allocation={"h1": gpus}, expected_left=left, held_seconds=500.0, **fields)


def waits(id: str, gpus: int, at: float = NOW, takes: float | None = None, **fields: object) -> JobView:
    return job(id, gpus=gpus, at=at, expected_left=takes, **fields)


def elastic(id: str, on: int = 0, **fields: object) -> JobView:
    held = {"allocation": {"h1": on}, "held_seconds": 500.0} if on else {}
    return job(id, elastic=True, goodput=PowerLaw(0.9), profiled_gpus=8, **{**held, **fields})


def decide(*jobs: JobView, hosts: list[HostView] | None = None, metric: str = "default", **parameters: object) -> Plan:
    policy = make_policy("goodput", metric=metric, **parameters)
    return policy.allocate(snapshot(list(jobs), hosts or [host(gpus=8)], now=NOW))


@pytest.mark.parametrize("metric", METRICS)
def test_others_pass_the_first_only_if_they_end_before_or_leave_its_gpus_free(metric: str) -> None:
    first = [runs("a", 6, 1000.0), waits("big", 6, at=1.0, takes=100.0)]
    assert "short" in decide(*first, waits("short", 2, takes=900.0), metric=metric).allocations
    assert "long" in decide(*first, waits("long", 2, takes=1100.0), metric=metric).allocations, "they are spare"
    first = [runs("a", 6, 1000.0), waits("big", 8, at=1.0, takes=100.0)]
    assert "short" in decide(*first, waits("short", 2, takes=300.0), metric=metric).allocations
    plan = decide(*first, waits("long", 2, takes=1100.0), metric=metric)
    assert plan.allocations.keys() == {"a"}
    assert plan.reasons["big"] == (
        "It waits for 8 GPUs and comes first. "
        "They are reserved for it from the end of a, which is expected in 17 minutes."
    )
    assert plan.reasons["long"] == "It could hold up big, which needs 8 GPUs and comes first."


def test_the_order_is_by_response_ratio_over_gpus() -> None:
    """2,000 s of waiting are much for a job of a minute, and little for one of a day."""
    busy = runs("a", 7, 50.0)
    day, minute = waits("day", 1, at=NOW - 2001, takes=86_400.0), waits("minute", 1, at=NOW - 2000, takes=60.0)
    assert "minute" in decide(busy, day, minute).allocations
    assert "day" in decide(busy, day, minute, overtaking=0).allocations, "strict order"


def test_later_jobs_hold_at_most_a_share_while_an_older_one_waits() -> None:
    running = [runs("before", 2, 9000.0), *(runs(f"later{i}", 1, 100.0, at=NOW - 10) for i in range(3))]
    old, new = waits("old", 4, at=NOW - 1000, takes=80_000.0), waits("new", 1, takes=200.0)
    assert "new" in decide(*running, old, new, overtaking=0.5).allocations
    assert "new" not in decide(*running, old, new, overtaking=0.375).allocations


def test_jobs_that_pass_must_be_much_shorter_where_the_oldest_needs_their_gpus_too() -> None:
    """Expectations may be wrong again and again; how far they may be off depends on their basis."""
    state = [runs("before", 7, 90_000.0), waits("old", 8, at=NOW - 1000, takes=80_000.0)]
    assert "new" in decide(*state, waits("new", 1, takes=29_000.0), overtaking=1).allocations
    assert "new" not in decide(*state, waits("new", 1, takes=31_000.0), overtaking=1).allocations
    told = job("new", at=NOW, remaining=75_000.0, basis=Basis.PROGRESS)
    assert "new" in decide(*state, told, overtaking=1).allocations


@pytest.mark.parametrize("metric", METRICS)
def test_elastic_jobs_use_reserved_gpus_and_shrink_for_a_rigid_one(metric: str) -> None:
    plan = decide(runs("a", 4, 1000.0), waits("big", 6, at=1.0), elastic("e", on=4), metric=metric)
    assert plan.allocations == {"a": {"h1": 4}, "e": {"h1": 4}}
    plan = decide(waits("big", 6, at=1.0), elastic("e", on=8), metric=metric)
    assert sum(plan.allocations["big"].values()) == 6
    assert sum(plan.allocations["e"].values()) <= 2


def test_what_elastic_jobs_leave_does_not_idle_for_a_large_job_that_weighs_less() -> None:
    """Jobs pass it up to the share, and the rest of the GPUs waits for it."""
    several = [elastic(f"e{i}", at=NOW - 20, max_gpus=1) for i in range(4)]
    jobs = [*several, waits("large", 5, at=NOW - 10), *(waits(f"s{i}", 1, at=NOW, takes=60.0) for i in range(4))]
    plan = decide(*jobs, overtaking=0.25)
    assert plan.allocations.keys() == {"e0", "e1", "e2", "e3", "s0", "s1"}
    assert plan.reasons["large"].code == "waiting_for_gpus"  # type: ignore[attr-defined]
    assert plan.reasons["s3"] == "It waits for 1 GPU, behind large, which needs 5 GPUs."


def test_on_several_types_a_job_starts_where_others_leave_its_gpus_free() -> None:
    hosts = [host("a", gpus=3, gpu_type="a"), host("b", gpus=4, gpu_type="b")]
    plan = decide(waits("0", 1, at=0.0), waits("1", 3, at=0.0), waits("2", 3, at=0.0), hosts=hosts)
    assert plan.allocations.keys() == {"0", "1", "2"}


@pytest.mark.parametrize("metric", METRICS)
def test_rigid_jobs_start_by_priority_first(metric: str) -> None:
    low, high = waits("low", 8, at=NOW - 9000, takes=60.0), waits("high", 8, takes=9000.0, priority=60)
    assert decide(low, high, metric=metric).allocations.keys() == {"high"}


@pytest.mark.parametrize("metric", METRICS)
def test_a_rigid_job_that_is_due_takes_gpus_of_elastic_jobs_submitted_later(metric: str) -> None:
    """Each of them may weigh more while it is young."""
    old, young = waits("old", 8, at=NOW - 900, takes=400.0), [elastic(f"e{i}", on=2, at=NOW - 10) for i in range(4)]
    assert decide(old, *young, metric=metric).allocations == {"old": {"h1": 8}}
    before = elastic("before", on=2, at=NOW - 1000)
    assert "old" not in decide(old, before, *young[1:], metric=metric).allocations, "that one keeps its minimum"
    just_started = [elastic(f"e{i}", on=2, at=NOW - 10, held_seconds=5.0) for i in range(4)]
    assert "old" not in decide(old, *just_started, metric=metric).allocations, "they keep their minimum run"


def test_time_in_which_a_job_was_held_is_no_waiting() -> None:
    """It collected a claim on all GPUs meanwhile."""
    held = waits("held", 8, at=NOW - 9000, takes=400.0)
    young = [elastic(f"e{i}", on=2, at=NOW - 10) for i in range(4)]
    assert "held" in decide(held, *young).allocations
    assert "held" not in decide(replace(held, start_after=NOW - 1), *young).allocations


@pytest.mark.parametrize("metric", METRICS)
def test_no_rigid_job_starts_on_gpus_that_an_older_elastic_job_needs(metric: str) -> None:
    """A stream of small rigid jobs kept a large elastic one waiting."""
    running = [runs(f"r{i}", 1, 300.0, at=NOW - 600) for i in range(6)]
    large = elastic("large", at=NOW - 9000, min_gpus=6, max_gpus=8, remaining=3600.0)
    assert "new" not in decide(*running, large, waits("new", 1, takes=3000.0), metric=metric).allocations
    assert "new" in decide(*running, waits("new", 1, takes=3000.0), metric=metric).allocations
    large = replace(large, allocation={"h1": 6}, held_seconds=500.0)
    plan = decide(large, *(waits(f"new{i}", 1, takes=3000.0) for i in range(8)), metric=metric)
    assert plan.allocations["large"] == {"h1": 6}
    assert len(plan.allocations) == 3


@pytest.mark.parametrize("metric", METRICS)
def test_a_job_of_higher_priority_takes_gpus_of_elastic_jobs(metric: str) -> None:
    """And is not stopped for them afterwards, however long they wait."""
    low = elastic("low", on=8, at=NOW - 90_000, min_gpus=8, max_gpus=8, priority=50)
    for high in (
        waits("high", 4, takes=9e5, priority=51),
        elastic("high", at=NOW, min_gpus=4, max_gpus=4, priority=51),
        elastic("high", on=4, at=NOW, min_gpus=4, max_gpus=4, priority=51),
    ):
        jobs = [replace(low, allocation={}, held_seconds=None) if high.allocation else low, high]
        assert decide(*jobs, metric=metric).allocations == {"high": {"h1": 4}}
    assert "high" not in decide(low, waits("high", 4, takes=9e5, priority=50), metric=metric).allocations
    rigid = runs("low", 8, 9e5, priority=0)
    assert decide(rigid, elastic("high", priority=100), metric=metric).allocations == {"low": {"h1": 8}}


def test_jobs_of_higher_priority_claim_their_minimum_and_weights_share_out_the_rest() -> None:
    high = [elastic(f"high{i}", min_gpus=1, max_gpus=8, priority=90) for i in range(3)]
    low = [elastic(f"low{i}", on=2, at=NOW - 9000, min_gpus=2, max_gpus=2, priority=10) for i in range(4)]
    allocations = decide(*high, *low).allocations
    assert all(job.id in allocations for job in high)
    assert sum(job.id in allocations for job in low) == 2


@pytest.mark.parametrize("policy", ["priority", *(f"goodput:{metric}" for metric in METRICS)])
def test_preemptible_rigid_jobs_stop_for_jobs_of_higher_priority(policy: str) -> None:
    """The lowest first, then the newest, and no more than needed. Others of them, and all other rigid jobs, stay."""
    name, _, metric = policy.partition(":")

    def plan_of(*jobs: JobView) -> Plan:
        given = {"metric": metric} if metric else {}
        return make_policy(name, **given).allocate(snapshot(list(jobs), [host(gpus=8)], now=NOW))

    fixed = runs("fixed", 2, 9e5, priority=10)
    old, new = (runs(f"p{at}", 2, 9e5, at=at, priority=10, preemptible=True) for at in (1.0, 2.0))
    lowest = runs("lowest", 2, 9e5, at=0.5, priority=5, preemptible=True)
    plan = plan_of(fixed, old, new, lowest, waits("high", 2, takes=60.0, priority=20))
    assert plan.allocations.keys() == {"fixed", "p1.0", "p2.0", "high"}
    plan = plan_of(fixed, old, new, lowest, waits("high", 4, takes=60.0, priority=20))
    assert plan.allocations.keys() == {"fixed", "p1.0", "high"}
    assert plan.reasons["lowest"].code == "preempted"  # type: ignore[attr-defined]
    if metric != "":
        assert plan.reasons["lowest"] == "It gives up its 2 GPUs to high, which has a higher priority."
    for same in (waits("same", 4, takes=60.0, priority=5), waits("much", 8, takes=60.0, priority=90)):
        assert plan_of(fixed, old, new, lowest, same).allocations.keys() == {"fixed", "p1.0", "p2.0", "lowest"}
    grows = elastic("elastic", min_gpus=4, max_gpus=4, priority=20)
    assert "elastic" in plan_of(fixed, old, new, lowest, replace(grows, required_gpus=4)).allocations


def stops_of(plan: Plan, jobs: list[JobView]) -> set[str]:
    return {each.id for each in jobs if each.allocation and not plan.allocations.get(each.id)}


def preemptible(id: str, gpus: int, on: str = "h1", at: float = 1.0, **fields: object) -> JobView:
    held = {"allocation": {on: gpus}, "held_seconds": 500.0}
    return job(id, gpus=gpus, at=at, **{**held, "priority": 10, "preemptible": True, **fields})


@pytest.mark.parametrize("metric", METRICS)
def test_several_jobs_of_higher_priority_stop_preemptible_ones(metric: str) -> None:
    """No plan could be made once the first of them had stopped one."""
    low = [preemptible(f"p{i}", 2, at=float(i)) for i in range(4)]
    high = [waits(f"high{i}", 2, at=NOW - i, takes=60.0, priority=60) for i in range(3)]
    plan = decide(*low, *high, metric=metric)
    assert plan.allocations.keys() == {"p0", *(each.id for each in high)}


@pytest.mark.parametrize("metric", METRICS)
def test_preemptible_jobs_that_stop_leave_a_job_room_on_one_host(metric: str) -> None:
    """Not the newest ones of both hosts: the job would spread over these."""
    hosts = [host("h1", gpus=4), host("h2", gpus=4)]
    low = [preemptible(f"p{i}", 2, on=f"h{1 + i % 2}", at=float(i)) for i in range(4)]
    plan = decide(*low, waits("high", 4, takes=60.0, priority=60), hosts=hosts, metric=metric)
    assert stops_of(plan, low) == {"p1", "p3"}
    assert plan.allocations["high"] == {"h2": 4}
    both = waits("both", 8, takes=60.0, priority=60)
    assert decide(*low, both, hosts=hosts, metric=metric).allocations == {"both": {"h1": 4, "h2": 4}}
    small = [preemptible("small", 1, at=9.0), preemptible("large", 3, at=8.0)]
    plan = decide(*small, waits("high", 3, takes=60.0, priority=60), hosts=hosts[:1], metric=metric)
    assert stops_of(plan, small) == {"large"}


@pytest.mark.parametrize("metric", METRICS)
def test_preemptible_jobs_stop_beside_elastic_ones_of_the_same_or_higher_priority(metric: str) -> None:
    """These keep their minimum, so that the job would wait for as long as they run."""
    low = preemptible("low", 4, expected_left=9e5)
    for other in (60, 90):
        beside = elastic("beside", on=4, at=NOW - 20, min_gpus=4, max_gpus=4, priority=other)
        for high in (
            waits("high", 4, takes=60.0, priority=60),
            elastic("high", at=NOW, min_gpus=4, max_gpus=4, priority=60),
        ):
            plan = decide(low, beside, high, metric=metric)
            assert plan.allocations.keys() == {"beside", "high"}, (other, high.elastic)
    gives_way = elastic("less", on=4, min_gpus=4, max_gpus=4, priority=20)
    assert "low" in decide(low, gives_way, high, metric=metric).allocations


@pytest.mark.parametrize("metric", METRICS)
def test_jobs_resized_in_place_give_way_to_jobs_of_higher_priority_too(metric: str) -> None:
    """To leave them where they are took less time, all together."""
    low = elastic("low", on=4, at=NOW - 20_000, in_place=True, min_gpus=4, max_gpus=4, required_gpus=4)
    for high in (waits("high", 1, priority=80), elastic("high", at=NOW, priority=80)):
        assert "high" in decide(low, high, hosts=[host(gpus=4)], metric=metric).allocations


@pytest.mark.parametrize("metric", METRICS)
def test_rigid_jobs_of_lower_priority_do_not_start_on_gpus_that_an_elastic_one_needs(metric: str) -> None:
    """They weighed more, since they have waited for longer, and nothing takes GPUs back from them."""
    high = elastic("high", at=NOW - 10, min_gpus=4, max_gpus=8, required_gpus=4, priority=80)
    low = [waits(f"low{i}", 1, at=NOW - 90_000, takes=60.0) for i in range(4)]
    assert decide(high, *low, hosts=[host(gpus=4)], metric=metric).allocations == {"high": {"h1": 4}}


@pytest.mark.parametrize("metric", METRICS)
def test_a_preemptible_job_stops_only_for_a_job_that_starts(metric: str) -> None:
    """Another took the GPUs, since it weighs more: a preemptible job must not lose its work for that."""
    low = preemptible("low", 2, at=NOW - 20_000, priority=20)
    older = elastic("older", at=NOW - 20_000, min_gpus=4, max_gpus=4, required_gpus=4)
    jobs = [low, older, waits("rigid", 2, at=NOW - 500, takes=60.0), elastic("high", at=NOW - 500, priority=80)]
    plan = decide(
        *jobs, elastic("too large", at=NOW - 3000, min_gpus=8, priority=80), hosts=[host(gpus=4)], metric=metric
    )
    assert "high" in plan.allocations
    assert ("low" in plan.allocations) is ("rigid" not in plan.allocations)


@pytest.mark.parametrize("metric", METRICS)
def test_a_preemptible_job_stops_for_an_elastic_one_beside_a_rigid_one_that_waits(metric: str) -> None:
    """The elastic one weighed more than the rigid one, which therefore waited: and then nobody got the GPUs."""
    low, same = preemptible("low", 4, at=1.0, priority=50), preemptible("same", 4, at=NOW - 10, priority=80)
    rigid = waits("rigid", 4, at=NOW - 3000, takes=5000.0, priority=80)
    other = elastic("other", at=NOW - 500, max_gpus=8, required_gpus=4, priority=80)
    plan = decide(low, same, rigid, other, metric=metric)
    assert "low" not in plan.allocations
    assert len(plan.allocations) > 1


def test_no_job_that_requires_a_type_takes_gpus_that_were_freed_for_one_of_higher_priority() -> None:
    """The policy put it on another type; it was moved to GPUs for which a preemptible job had just stopped."""
    hosts = [host("h1", gpus=8, gpu_type="b"), host("h2", gpus=1, gpu_type="a")]
    low, high = preemptible("low", 8, priority=50), waits("high", 8, takes=60.0, priority=80)
    typed = waits("typed", 1, at=NOW - 3000, takes=60.0, priority=50, gpu_type="b")
    state = snapshot([low, high, typed], hosts, now=NOW)
    plan = plan_feasible(make_policy("priority").allocate, state)
    assert plan.allocations == {"high": {"h1": 8}}


@pytest.mark.parametrize("policy", ["priority", "goodput"])
def test_a_stopped_rigid_job_starts_again_from_the_beginning(policy: str) -> None:
    length = rigid_application("seconds", 1000.0)
    low = TraceJob("low", 0.0, length, 8, 8, 8, elastic=False, preemptible=True)
    high = TraceJob("high", 500.0, length, 8, 8, 8, elastic=False, priority=90)
    found = {
        outcome.job.id: outcome for outcome in simulate(make_policy(policy), [low, high], equal_hosts(1, 8)).outcomes
    }
    assert found["high"].started_at == pytest.approx(500.0, abs=1.0)
    assert found["low"].ended_at >= 2500.0 - 1.0
    assert found["low"].restarts == 1


def test_jobs_that_must_start_for_their_deadlines_hold_a_share_at_most() -> None:
    """Otherwise a stream of them would keep the oldest job waiting."""
    running = [runs(f"late{i}", 1, 500.0, at=NOW - 10, deadline=NOW + 600) for i in range(4)]
    old, urgent = waits("old", 8, at=NOW - 9000), waits("urgent", 1, takes=600.0, deadline=NOW + 700)
    assert "urgent" in decide(*running[:3], old, urgent).allocations
    assert "urgent" not in decide(*running, old, urgent).allocations


def test_a_job_waits_only_for_gpus_of_a_type_that_it_may_have() -> None:
    hosts = [host("a", gpus=8, gpu_type="a"), host("b", gpus=8, gpu_type="b")]
    held = job("held", gpus=8, allocation={"a": 8}, expected_left=9000.0)
    choosy = waits("choosy", 8, at=NOW - 90_000, gpu_type="a")
    small = [waits(f"s{i}", 1, takes=60.0) for i in range(8)]
    assert len(decide(held, choosy, *small, hosts=hosts).allocations) == 9


def test_hosts_whose_gpus_wait_for_a_reserved_job_are_not_powered_down() -> None:
    hosts = [host("h1", gpus=4), host("h2", gpus=4)]
    jobs = [job("r", gpus=4, allocation={"h1": 4}, expected_left=900.0), waits("big", 8, at=1.0)]
    assert decide(*jobs, hosts=hosts, metric="cost").desired_hosts == 2


def trace(seed: int) -> tuple[list[HostView], list[TraceJob]]:
    """Rigid jobs of all sizes on 8 to 32 GPUs, at a load of 0.5 to 1.5."""
    dice = random.Random(seed)
    count, number = dice.choice([1, 2, 4]), dice.randint(20, 120)
    load, spread = dice.uniform(0.5, 1.5), dice.uniform(0, 2)
    sizes = [dice.choice([1, 1, 1, 2, 4, 8, 8 * count]) for _ in range(number)]
    seconds = [min(2e5, 600 * math.exp(dice.gauss(0, spread))) for _ in range(number)]
    span = sum(map(math.prod, zip(sizes, seconds, strict=True))) / (8 * count * load)
    times = sorted(dice.uniform(0, span) for _ in range(number))
    jobs = [
        TraceJob(f"j{i}", at, rigid_application("seconds", length), size, size, size, elastic=False)
        for i, (at, size, length) in enumerate(zip(times, sizes, seconds, strict=True))
    ]
    return equal_hosts(count, 8), jobs


def mixed(seed: int) -> tuple[list[HostView], list[TraceJob]]:
    """The same jobs, a part of them elastic: from their size, or from one GPU, to twice their size."""
    hosts, jobs = trace(seed)
    dice = random.Random(seed + 7)
    share, total = dice.choice([0.2, 0.5, 0.8]), sum(host.gpus for host in hosts)

    def elastic_one(job: TraceJob) -> TraceJob:
        least, most = dice.choice([1, job.required_gpus]), min(total, 2 * job.required_gpus)
        return replace(job, elastic=True, min_gpus=least, max_gpus=most)

    return hosts, [elastic_one(job) if dice.random() < share else job for job in jobs]


def waits_of(policy: str, hosts: list[HostView], jobs: list[TraceJob], **parameters: object) -> Iterator[float]:
    for outcome in simulate(make_policy(policy, **parameters), jobs, hosts).outcomes:
        yield outcome.started_at - outcome.job.submitted_at


BOUND_TIMES, BOUND_LONGEST = 3, 4
"""No wait is longer than so many times that in strict order, plus so many times the longest job: a reservation rests on
when running jobs are expected to end, and that may be wrong."""


@pytest.mark.parametrize("part", range(10))
def test_no_job_waits_longer_than_a_multiple_of_what_strict_order_needs(part: int) -> None:
    """Rigid jobs alone, and beside elastic ones: neither kind keeps the other waiting."""
    number = 1000 if os.environ.get("SCHEDULEARN_TEST_EXAMPLES") else 50
    for make, seeds in ((trace, range(part, number, 10)), (mixed, range(part, number // 10, 10))):
        for seed in seeds:
            hosts, jobs = make(seed)
            longest = max(each.application.total_steps for each in jobs)
            strict = list(waits_of("fifo", hosts, jobs, backfill="none"))
            for metric in METRICS if seed < 10 and make is trace else [METRICS[seed % 3]]:
                for waited, in_order in zip(waits_of("goodput", hosts, jobs, metric=metric), strict, strict=True):
                    assert waited <= BOUND_TIMES * in_order + BOUND_LONGEST * longest, (make, seed, metric)


@pytest.mark.parametrize("metric", METRICS)
def test_a_stream_of_jobs_of_one_kind_does_not_keep_one_of_the_other_waiting(metric: str) -> None:
    """A rigid job waited for 92,000 s behind elastic ones in such a trace, an elastic one until the stream ended."""
    length, dice = rigid_application("seconds", 600.0), random.Random(1)
    for stream, large in (
        (TraceJob("", 0.0, length, 2, 2, 4), TraceJob("large", 1000.0, length, 8, 8, 8, elastic=False)),
        (TraceJob("", 0.0, length, 1, 1, 1, elastic=False), TraceJob("large", 1000.0, length, 6, 6, 8)),
    ):
        times = [0.0]
        while len(times) < 100:
            times.append(times[-1] + dice.expovariate(0.85 * 8 / (600.0 * stream.required_gpus)))
        jobs = [replace(stream, id=f"small{i}", submitted_at=at) for i, at in enumerate(times)]
        found = simulate(make_policy("goodput", metric=metric), [*jobs, large], equal_hosts(1, 8)).outcomes
        [outcome] = [outcome for outcome in found if outcome.job.id == "large"]
        assert outcome.started_at - 1000.0 <= 3 * 600.0
        assert outcome.ended_at - outcome.started_at <= 700.0, "it is not stopped for others"


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("priority", "most"), [(50, 900.0), (100, 200.0)])
def test_a_stream_of_small_jobs_does_not_keep_a_large_one_waiting(metric: str, priority: int, most: float) -> None:
    """It waited until the stream ended. In strict order it waits for 160 s."""
    length = rigid_application("seconds", 600.0)
    jobs = [TraceJob(f"small{i}", 90.0 * i, length, elastic=False) for i in range(60)]
    jobs.append(TraceJob("large", 900.0, length, 4, 4, 4, elastic=False, priority=priority))
    found = simulate(make_policy("goodput", metric=metric), jobs, equal_hosts(1, 8)).outcomes
    [large] = [outcome for outcome in found if outcome.job.id == "large"]
    assert large.started_at - 900.0 <= most
