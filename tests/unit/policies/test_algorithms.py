"""What each preemptive or elastic policy promises beyond the safety that all have (test_policies.py)."""

import itertools
from dataclasses import replace

import pytest
from builders import PowerLaw, host, job, snapshot
from hypothesis import assume, given
from hypothesis import strategies as st

from schedulearn.scheduler.core.model import JobView, Plan
from schedulearn.scheduler.core.policy import plan_faults
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policies.classic.afs_l import winner
from schedulearn.scheduler.policies.classic.elastic import Claim
from schedulearn.scheduler.policies.classic.ffdl import maximise
from schedulearn.scheduler.policies.registry import make_policy

LINEAR = PowerLaw(1.0)


def elastic(id: str, on: dict[str, int] | None = None, **fields: object) -> JobView:
    """An elastic job, by default one that has run for long where it runs."""
    run_seconds = 3000.0 if on else 0.0
    return job(id, elastic=True, **{"run_seconds": run_seconds, "goodput": LINEAR, "allocation": on or {}, **fields})


def total(plan: Plan, job_id: str) -> int:
    return sum(plan.allocations.get(job_id, {}).values())


def code(plan: Plan, job_id: str) -> str:
    return str(getattr(plan.reasons[job_id], "code", ""))


# Jobs over several hosts.


def test_a_job_larger_than_a_host_takes_whole_free_hosts_and_the_rest_on_one_more() -> None:
    small = job("small", gpus=1, allocation={"b": 1})
    plan = make_policy("fifo").allocate(snapshot([small, job("big", gpus=10)], [host(h) for h in "abcd"]))
    assert plan.allocations["big"] == {"a": 4, "c": 4, "b": 2}


def test_a_job_over_several_hosts_stays_within_one_type_of_gpu() -> None:
    hosts = [host("a", gpu_type="old"), host("b", gpu_type="new"), host("c", gpu_type="new")]
    assert make_policy("fifo").allocate(snapshot([job("big", gpus=8)], hosts)).allocations["big"] == {"b": 4, "c": 4}
    mixed = make_policy("fifo").allocate(snapshot([job("huge", gpus=12)], hosts)).allocations["huge"]
    assert mixed == {"a": 4, "b": 4, "c": 4}  # no type could ever hold it


def test_strict_policies_keep_room_for_a_job_over_several_hosts_and_backfill_lets_others_pass() -> None:
    runs = job("runs", gpus=1, allocation={"a": 1})
    state = snapshot([runs, job("big", at=1, gpus=8), job("late", at=2)], [host("a"), host("b")])
    strict = make_policy("fifo").allocate(state)
    assert set(strict.allocations) == {"runs"}
    assert "8 GPUs on several hosts" in strict.reasons["big"]
    assert set(make_policy("fifo", backfill=True).allocate(state).allocations) == {"runs", "late"}
    never = make_policy("fifo").allocate(snapshot([job("big", gpus=9)], [host("a"), host("b")]))
    assert (code(never, "big"), "8 in total" in never.reasons["big"]) == ("unsatisfiable_now", True)


def test_preemption_clears_whole_hosts_for_a_job_over_several_and_spares_the_rest() -> None:
    running = [elastic(h, {h: 1}, remaining=1e6) for h in "abc"]
    big = elastic("big", at=1, gpus=8, min_gpus=8, remaining=10.0)
    plan = make_policy("srtf").allocate(snapshot([*running, big], [host(h) for h in "abc"]))
    assert total(plan, "big") == 8
    assert len(plan.allocations) == 2  # one host was left alone
    assert {code(plan, v) for v in "abc" if v not in plan.allocations} == {"preempted"}


# SRTF and LAS.


def test_srtf_preempts_for_a_far_shorter_job_and_only_an_elastic_one() -> None:
    long, rigid = elastic("long", {"h1": 2}, remaining=9e4), job("rigid", gpus=2, allocation={"h1": 2}, remaining=9e9)
    plan = make_policy("srtf").allocate(snapshot([long, rigid, job("short", gpus=2, remaining=100.0)]))
    assert plan.allocations == {"rigid": {"h1": 2}, "short": {"h1": 2}}
    assert plan.reasons["long"] == "It gives up its 2 GPUs to make room for short."


def test_srtf_spares_whom_it_need_not_stop_and_stops_the_longest() -> None:
    running = [elastic(f"r{i}", {"h1": 1}, remaining=1e4 * (i + 1)) for i in range(4)]
    plan = make_policy("srtf").allocate(snapshot([*running, job("short", gpus=2, remaining=100.0)]))
    assert set(plan.allocations) == {"r0", "r1", "short"}


def test_two_jobs_of_about_one_length_do_not_take_turns_under_srtf() -> None:
    runs, waits = elastic("runs", {"h1": 4}, remaining=5000.0), elastic("waits", gpus=4, remaining=2600.0)
    assert set(make_policy("srtf").allocate(snapshot([runs, waits])).allocations) == {"runs"}
    shorter = replace(waits, remaining=2400.0)
    assert set(make_policy("srtf").allocate(snapshot([runs, shorter])).allocations) == {"waits"}


def test_srtf_takes_attained_service_for_an_unknown_length() -> None:
    jobs = [job("known", at=1, remaining=500.0), job("new", at=2), job("old", at=0, attained_gpu_seconds=900.0)]
    plan = make_policy("srtf").allocate(snapshot(jobs, [host(gpus=2)]))
    assert set(plan.allocations) == {"new", "known"}


def test_las_serves_the_least_served_and_changes_places_ever_more_rarely() -> None:
    """Two jobs on one GPU: the times at which they change places, by simulating second after second in steps of 10."""
    policy = make_policy("las", factor=2.0, least_service=100.0)
    service = {"a": 0.0, "b": 0.0}
    holder, changes = "a", []
    for now in range(0, 20_000, 10):
        views = [
            elastic(name, {"h1": 1} if name == holder else {}, attained_gpu_seconds=service[name]) for name in "ab"
        ]
        plan = policy.allocate(snapshot(views, [host(gpus=1)], now=float(now)))
        [after] = plan.allocations
        if after != holder:
            changes.append(now)
            holder = after
        service[holder] += 10
    assert 4 <= len(changes) <= 9
    gaps = [late - early for early, late in itertools.pairwise(changes)]
    assert gaps == sorted(gaps)


# Tiresias.


def test_tiresias_demotes_by_gpu_seconds_and_preempts_only_for_an_earlier_queue() -> None:
    first, second = 3000.0, 4000.0  # GPU-seconds on either side of the threshold
    new = job("new", at=900)
    same = make_policy("tiresias").allocate(
        snapshot([elastic("runs", {"h1": 1}, attained_gpu_seconds=first), new], [host(gpus=1)])
    )
    later = make_policy("tiresias").allocate(
        snapshot([elastic("runs", {"h1": 1}, attained_gpu_seconds=second), new], [host(gpus=1)])
    )
    assert (set(same.allocations), set(later.allocations)) == ({"runs"}, {"new"})


def test_tiresias_keeps_first_in_first_out_within_a_queue() -> None:
    jobs = [job("late", at=2, attained_gpu_seconds=0), job("early", at=1, attained_gpu_seconds=3500.0)]
    assert set(make_policy("tiresias").allocate(snapshot(jobs, [host(gpus=1)])).allocations) == {"early"}


@pytest.mark.parametrize("name", ["tiresias", "elastic-tiresias"])
def test_nobody_starves_under_tiresias_however_large_and_whatever_comes(name: str) -> None:
    """A rigid job of a whole host, while rigid jobs of one GPU keep coming, four a minute, four minutes each."""
    policy = make_policy(name)
    big = job("big", at=0, gpus=4)
    running: list[JobView] = [job(f"first{i}", at=0, allocation={"h1": 1}) for i in range(4)]
    ends = {view.id: 60.0 * (i + 1) for i, view in enumerate(running)}
    waiting: list[JobView] = [big]
    for now in range(0, 20_000, 30):
        running = [view for view in running if ends[view.id] > now]
        waiting += [job(f"{now}-{i}", at=now) for i in range(2)]
        state = snapshot([*running, *waiting], now=float(now))
        plan = policy.allocate(state)
        assert plan_faults(state, plan) == []
        started = [view for view in waiting if view.id in plan.allocations]
        if big in started:
            break
        running += [replace(view, allocation=plan.allocations[view.id]) for view in started]
        ends.update({view.id: now + 240.0 for view in started})
        waiting = [view for view in waiting if view not in started]
    else:
        pytest.fail("the large job never started")
    assert now <= 8 * 600 + 300  # promoted after 80 minutes, and then those that ran ended


def test_thresholds_of_tiresias_are_checked() -> None:
    for thresholds in ([100, 100], [200, 100], [0], "5, 4"):
        with pytest.raises(InvalidError, match="ascending"):
            make_policy("tiresias", thresholds=thresholds)
    with pytest.raises(InvalidError, match="separated by commas, not '100; 200'"):
        make_policy("tiresias", thresholds="100; 200")


def test_thresholds_may_be_written_as_a_page_has_them() -> None:
    demoted = elastic("runs", {"h1": 1}, attained_gpu_seconds=150.0)
    state = snapshot([demoted, job("new", at=900)], [host(gpus=1)])
    for thresholds in ("100, 1000", [100, 1000]):
        assert set(make_policy("tiresias", thresholds=thresholds).allocate(state).allocations) == {"new"}


# Elastic policies.

ELASTIC = ("elastic-fifo", "elastic-srtf", "elastic-tiresias", "ffdl", "afs-l")


@pytest.mark.parametrize("name", ELASTIC)
def test_a_lone_elastic_job_gets_the_whole_cluster_over_hosts(name: str) -> None:
    plan = make_policy(name).allocate(snapshot([elastic("a", max_gpus=16)], [host("h1"), host("h2")]))
    assert plan.allocations == {"a": {"h1": 4, "h2": 4}}


@pytest.mark.parametrize("name", ELASTIC)
def test_running_jobs_shrink_for_one_that_comes(name: str) -> None:
    plan = make_policy(name).allocate(
        snapshot([elastic("a", {"h1": 4}, remaining=9e3), elastic("b", at=1, remaining=1e3)])
    )
    assert total(plan, "a") >= 1
    assert total(plan, "b") >= 1
    assert code(plan, "a") == "resized"
    assert f"from 4 GPUs to {total(plan, 'a')}" in plan.reasons["a"]


@pytest.mark.parametrize("name", ELASTIC)
def test_a_job_that_has_just_been_restarted_is_left_alone(name: str) -> None:
    runs = elastic("a", {"h1": 4}, run_seconds=200.0, restarts=1)
    plan = make_policy(name).allocate(snapshot([runs, elastic("b", at=1)]))
    assert plan.allocations == {"a": {"h1": 4}}
    later = make_policy(name).allocate(snapshot([replace(runs, run_seconds=241.0), elastic("b", at=1)]))
    assert total(later, "b") >= 1


@pytest.mark.parametrize("name", ELASTIC)
def test_a_job_does_not_grow_for_a_gain_that_is_not_worth_the_restart(name: str) -> None:
    def grows(scaling: float) -> bool:
        runs = elastic("a", {"h1": 3}, goodput=PowerLaw(scaling))
        return total(make_policy(name).allocate(snapshot([runs])), "a") == 4

    assert not grows(0.2)  # (4 / 3) ** 0.2 = 1.06
    assert grows(0.9)


@pytest.mark.parametrize("name", ELASTIC)
def test_gpus_that_make_no_job_faster_stay_free(name: str) -> None:
    jobs = [elastic("a", goodput=PowerLaw(0.0)), elastic("b", at=1, goodput=PowerLaw(-0.5))]
    assert {j: total(make_policy(name).allocate(snapshot(jobs)), j) for j in "ab"} == {"a": 1, "b": 1}


@pytest.mark.parametrize("name", ELASTIC)
def test_an_unprofiled_job_is_tried_on_what_it_asked_for(name: str) -> None:
    assert total(make_policy(name).allocate(snapshot([elastic("a", gpus=3, goodput=None)])), "a") == 3


def test_elastic_fifo_shares_evenly_and_never_stops_a_job() -> None:
    plan = make_policy("elastic-fifo").allocate(
        snapshot([elastic(i, at=n) for n, i in enumerate("abc")], [host(gpus=8)])
    )
    assert [total(plan, i) for i in "abc"] == [3, 3, 2]
    full = [elastic(f"r{i}", {"h1": 1}, remaining=9e9) for i in range(4)]
    assert len(make_policy("elastic-fifo").allocate(snapshot([*full, elastic("new", remaining=1.0)])).allocations) == 4


def test_elastic_srtf_gives_the_shortest_job_most_and_stops_the_longest() -> None:
    state = snapshot([elastic("long", remaining=9e3), elastic("short", at=1, remaining=10.0)])
    plan = make_policy("elastic-srtf").allocate(state)
    assert (total(plan, "short"), total(plan, "long")) == (3, 1)
    full = [elastic(f"r{i}", {"h1": 1}, remaining=1e4 * 2**i) for i in range(4)]
    plan = make_policy("elastic-srtf").allocate(snapshot([*full, elastic("new", remaining=1.0)]))
    assert set(plan.allocations) == {"r0", "r1", "r2", "new"}


def test_of_jobs_of_about_one_length_the_earlier_stays_first_under_elastic_srtf() -> None:
    first, second = elastic("first", {"h1": 3}, remaining=7900.0), elastic("second", {"h1": 1}, at=1, remaining=4200.0)
    keeps = make_policy("elastic-srtf").allocate(snapshot([first, second]))
    assert (total(keeps, "first"), total(keeps, "second")) == (3, 1)
    shorter = make_policy("elastic-srtf").allocate(snapshot([first, replace(second, remaining=4000.0)]))
    assert (total(shorter, "first"), total(shorter, "second")) == (1, 3)


def test_elastic_tiresias_compacts_later_queues_when_many_wait() -> None:
    runs = elastic("old", {"h1": 4}, gpus=4, attained_gpu_seconds=1e5)
    rigid = [job(f"w{i}", at=i, attained_gpu_seconds=1e5) for i in range(3)]
    policy = make_policy("elastic-tiresias", compact_above=2)
    assert total(policy.allocate(snapshot([replace(runs, submitted_at=-1), *rigid[:2]])), "old") == 4
    assert total(policy.allocate(snapshot([replace(runs, submitted_at=-1), *rigid])), "old") == 1


def test_elastic_tiresias_gives_what_is_left_where_it_helps_most() -> None:
    jobs = [elastic("slow", goodput=PowerLaw(0.3)), elastic("fast", at=1, goodput=PowerLaw(0.9))]
    plan = make_policy("elastic-tiresias").allocate(snapshot(jobs, [host(gpus=6)]))
    assert (total(plan, "slow"), total(plan, "fast")) == (1, 5)


speedup_tables = st.lists(st.lists(st.floats(0.1, 9.0), min_size=1, max_size=5), min_size=1, max_size=4)


@given(tables=speedup_tables, extra=st.integers(0, 8), least=st.integers(1, 3))
def test_ffdl_finds_the_largest_total_speedup(tables: list[list[float]], extra: int, least: int) -> None:
    claims = [
        Claim(job(str(n)), [least + 2 * i if i > 2 else least + i for i in range(len(t))], sorted(t), step=0)
        for n, t in enumerate(tables)
    ]
    choices = itertools.product(*[range(len(t)) for t in tables])
    best = max(
        sum(c.speedups[s] for c, s in zip(claims, steps, strict=True))
        for steps in choices
        if sum(c.sizes[s] - least for c, s in zip(claims, steps, strict=True)) <= extra
    )
    maximise(claims, extra)
    assert sum(c.share - least for c in claims) <= extra
    assert sum(c.speedup for c in claims) == pytest.approx(best)


def test_ffdl_admits_first_in_first_out_and_maximises_speedup() -> None:
    jobs = [
        elastic("slow", goodput=PowerLaw(0.3)),
        elastic("fast", at=1, goodput=PowerLaw(0.9)),
        job("rigid", at=2, gpus=4),
    ]
    plan = make_policy("ffdl").allocate(snapshot(jobs, [host(gpus=5)]))
    assert {i: total(plan, i) for i in ("slow", "fast", "rigid")} == {"slow": 1, "fast": 4, "rigid": 0}


def test_afs_l_starts_the_shortest_and_gives_more_to_the_shorter_of_equals() -> None:
    jobs = [elastic("long", remaining=9e3), elastic("short", at=1, remaining=100.0)]
    plan = make_policy("afs-l").allocate(snapshot(jobs, [host(gpus=1)]))
    assert set(plan.allocations) == {"short"}
    plan = make_policy("afs-l").allocate(snapshot(jobs, [host(gpus=8)]))
    assert total(plan, "short") > total(plan, "long") > 0


def test_afs_l_gives_all_gpus_to_the_shorter_of_two_jobs_that_scale_perfectly() -> None:
    """Algorithm 1 of the paper asks for more than a tie before a GPU goes to the longer job: with 100 and 200 s of work
    on two GPUs the mean completion time is then 100 s; shared evenly, it is 125 s."""
    jobs = [
        elastic("long", remaining=200.0, goodput=PowerLaw(1.0)),
        elastic("short", at=1, remaining=100.0, goodput=PowerLaw(1.0)),
    ]
    plan = make_policy("afs-l").allocate(snapshot(jobs, [host(gpus=2)]))
    assert (total(plan, "short"), total(plan, "long")) == (2, 0)


def test_afs_l_gives_more_to_the_job_that_scales_better() -> None:
    jobs = [
        elastic("slow", remaining=1e3, goodput=PowerLaw(0.3)),
        elastic("fast", at=1, remaining=1e3, goodput=PowerLaw(0.95)),
    ]
    plan = make_policy("afs-l").allocate(snapshot(jobs, [host(gpus=8)]))
    assert total(plan, "fast") > 2 * total(plan, "slow") > 0


@given(
    k=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    scaling=st.tuples(st.floats(0.1, 1.0), st.floats(0.1, 1.0)),
    remaining=st.tuples(st.floats(1, 1e5), st.floats(1, 1e5)),
)
def test_the_next_gpu_of_afs_l_goes_where_it_saves_more_time(
    k: tuple[int, int], scaling: tuple[float, float], remaining: tuple[float, float]
) -> None:
    """Against the saving itself: until the shorter job, a, would end with one GPU more, the GPU serves either a, which
    then ends earlier, or b, which has so much less left."""
    sizes = list(range(1, 9))
    one, other = (
        Claim(job(n, remaining=r), sizes, [s**e for s in sizes], step=i - 1)
        for n, i, e, r in zip("ab", k, scaling, remaining, strict=True)
    )
    a, b = (one, other) if remaining[0] / one.speedup <= remaining[1] / other.speedup else (other, one)
    assert a.job.remaining is not None
    faster_a, faster_b = a.speedups[a.step + 1], b.speedups[b.step + 1]
    time = a.job.remaining / faster_a
    saved_a, saved_b = a.job.remaining / a.speedup - time, time * (faster_b - b.speedup) / faster_b
    assume(remaining[0] / one.speedup != pytest.approx(remaining[1] / other.speedup))
    if saved_a != pytest.approx(saved_b):
        assert winner(a, b) is winner(b, a) is (a if saved_a > saved_b else b)
