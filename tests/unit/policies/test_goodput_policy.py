"""Properties of the goodput policy, beside those of all policies."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from builders import PowerLaw, host, job, snapshot
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.host_scaling import HostScaling
from schedulearn.scheduler.core.model import Basis, HostView, JobView, Plan
from schedulearn.scheduler.errors import InvalidError
from schedulearn.scheduler.policies.goodput.allocate import Choosing
from schedulearn.scheduler.policies.goodput.options import build_options
from schedulearn.scheduler.policies.goodput.packing import rebind
from schedulearn.scheduler.policies.goodput.policy import GoodputPolicy
from schedulearn.scheduler.policies.goodput.prices import hesrpt_weights, market_price, remaining_work, worth_of_work
from schedulearn.scheduler.policies.goodput.restarts import restarts_of
from schedulearn.scheduler.policies.goodput.tuning import Tuning
from schedulearn.scheduler.policies.registry import make_policy


def elastic(id: str, power: float = 0.9, **fields: Any) -> JobView:
    return job(id, **{"elastic": True, "goodput": PowerLaw(power), **fields})


def gpus(plan: Plan) -> dict[str, int]:
    return {job_id: sum(allocation.values()) for job_id, allocation in plan.allocations.items()}


CLUSTER = [host(f"h{i}") for i in range(4)]


@pytest.mark.parametrize("metric", ["speed", "cost", "balanced"])
def test_the_job_that_scales_better_gets_more(metric: str) -> None:
    plan = make_policy("goodput", metric).allocate(snapshot([elastic("good", 0.95), elastic("bad", 0.2)], CLUSTER))
    assert gpus(plan)["good"] > gpus(plan)["bad"]


def test_profiles_decide_and_not_requests() -> None:
    jobs = [elastic("good", 0.95, gpus=1), elastic("bad", 0.2, gpus=4)]
    assert gpus(make_policy("goodput").allocate(snapshot(jobs)))["good"] >= 2


def test_another_tuning_takes_a_subclass_only() -> None:
    class Hurried(GoodputPolicy):
        tuning = Tuning(high_utility=0.9, later_guessed=1.0)

    few = [elastic(f"j{i}", 0.7) for i in range(5)]
    assert Hurried().scaling.high == 0.9
    assert Hurried(metric="speed").objective.later_prices(few) == (1.0,) * 5
    assert GoodputPolicy(metric="speed").objective.later_prices(few) == (0.5,) * 5


def test_in_a_crowd_who_has_long_to_go_leaves_gpus_to_those_who_end_soon() -> None:
    """Weights are the same for both; the long one will see cheaper GPUs."""
    few = [elastic(f"j{i}", 0.7, remaining=seconds) for i, seconds in enumerate([60.0, 60.0, 60.0, 60.0, 60.0, 1e5])]
    options = build_options(tuple(few), tuple(CLUSTER))
    weight = np.ones((6, 1))
    allowed = options.speedup > 0
    speedup = np.where(allowed, options.speedup, 1.0)
    held_up, each = np.where(allowed, weight / speedup, np.inf), np.where(allowed, options.size / speedup, 0.0)
    price = market_price(held_up, each, options, options.capacity)
    worth = worth_of_work(options, weight, price, GoodputPolicy().later_price)
    assert price > 0
    assert worth[5] < 0.8 * worth[0]
    assert worth[:5, 0] == pytest.approx(worth[0, 0])
    sizes = gpus(make_policy("goodput", "speed").allocate(snapshot(few, CLUSTER)))
    assert sizes["j5"] < sizes["j0"]
    alone = gpus(make_policy("goodput", "speed").allocate(snapshot(few[5:], CLUSTER)))
    assert alone == {"j5": 16}


def test_who_expects_no_cheaper_gpus_holds_long_jobs_up_less() -> None:
    few = [elastic(f"j{i}", 0.7, remaining=1000.0) for i in range(5)] + [elastic("long", 0.95, remaining=1e5)]

    def of_the_long_one(later_price: float) -> int:
        plan = make_policy("goodput", "speed", later_price=later_price).allocate(snapshot(few, CLUSTER))
        return gpus(plan).get("long", 0)

    assert of_the_long_one(0.2) < of_the_long_one(1.0)
    with pytest.raises(InvalidError, match="later_price must be 0 to 1"):
        make_policy("goodput", later_price=1.5)


def test_the_job_with_most_left_waits_less_for_cheaper_gpus_if_its_length_is_only_predicted() -> None:
    """A prediction by the family may be wrong: the job may end at once. A reported run time is trusted."""
    few = [elastic(f"j{i}", 0.7, remaining=1000.0) for i in range(5)] + [elastic("long", 0.95, remaining=1e5)]

    def of_the_long_one(basis: Basis) -> int:
        jobs = [replace(each, basis=basis) for each in few]
        return gpus(make_policy("goodput", "speed").allocate(snapshot(jobs, CLUSTER))).get("long", 0)

    assert of_the_long_one(Basis.PROGRESS) < of_the_long_one(Basis.FAMILY)


def weights_of(jobs: tuple[JobView, ...]) -> list[float]:
    options = build_options(jobs, tuple(CLUSTER))
    weights: list[float] = Choosing(GoodputPolicy(metric="speed").objective, options, now=0.0).weights.tolist()
    return weights


@pytest.mark.parametrize("known", [True, False])
def test_the_job_with_most_left_weighs_more_than_those_that_end_before_it(known: bool) -> None:
    """It ends last in any case. By its remaining or attained work it would weigh least."""
    seconds = [4000.0 * 2**i for i in range(6)]
    if known:
        jobs = tuple(elastic(f"j{i}", remaining=each, basis=Basis.FAMILY) for i, each in enumerate(seconds))
    else:
        jobs = tuple(elastic(f"j{i}", attained_gpu_seconds=each) for i, each in enumerate(seconds))
    weights = weights_of(jobs)
    assert weights[:5] == sorted(weights[:5], reverse=True)
    assert weights[5] > weights[4]


def test_of_jobs_that_have_as_much_left_none_weighs_more() -> None:
    assert weights_of(tuple(elastic(f"j{i}") for i in range(3))) == pytest.approx([1.0] * 3)


def test_an_unknown_length_among_known_ones_is_taken_for_a_long_one() -> None:
    """Short jobs finish soon; their run times then inform predictions."""
    unknown = elastic("unknown", attained_gpu_seconds=5000.0)
    known = elastic("known", remaining=10_000.0)
    assert remaining_work((unknown, unknown), Tuning()).tolist() == [5000.0, 5000.0]
    assert remaining_work((unknown, known), Tuning())[0] > 10_000
    by_itself = remaining_work((unknown, known), Tuning(), compared=False)  # for its deadline
    assert by_itself.tolist() == [5000.0, 10_000.0]


def test_a_job_that_was_left_alone_for_hours_counts_as_calm_however_often_it_was_resized_before() -> None:
    young = elastic("a", 0.7, allocation={"h1": 1}, run_seconds=36000.0, restarts=12, resize_seconds=60.0)
    calm = replace(young, held_seconds=20000.0)
    objective, two, now = GoodputPolicy(base_s=30).objective, np.array([[1.6]]), np.array([1.0])
    shares = [float(restarts_of(objective, [each]).share(two, now)[0, 0]) for each in (young, calm)]
    assert shares[0] == pytest.approx((30 + 0.5 * 36000 / 13) / (30 + 0.5 * 36000 / 13 + 60))
    assert shares[1] == pytest.approx((30 + 0.5 * 20000) / (30 + 0.5 * 20000 + 60))


def test_no_gpu_is_left_over_while_a_job_gains_by_it() -> None:
    for metric in ("default", "speed"):
        plan = make_policy("goodput", metric).allocate(snapshot([elastic("a"), elastic("b")], CLUSTER))
        assert sum(gpus(plan).values()) == 16


def test_cost_leaves_gpus_and_hosts_free_and_says_so() -> None:
    state = snapshot([elastic("a", 0.5), elastic("b", 0.5)], CLUSTER)
    cheap, default = make_policy("goodput", "cost").allocate(state), make_policy("goodput").allocate(state)
    assert sum(gpus(cheap).values()) < sum(gpus(default).values())
    assert cheap.desired_hosts is not None
    assert default.desired_hosts is not None
    assert cheap.desired_hosts < default.desired_hosts


def test_an_unprofiled_job_gets_no_more_than_may_be_tried() -> None:
    new = elastic("new", goodput=None, max_gpus=1)
    assert gpus(make_policy("goodput").allocate(snapshot([new, elastic("old")], CLUSTER)))["new"] == 1


def test_what_was_measured_on_one_gpu_alone_is_tried_on_two() -> None:
    """The fit of a single batch is cautious, and a frugal metric would never try more GPUs."""
    cautious = elastic("new", 0.4, max_gpus=2, allocation={"h0": 1}, run_seconds=600.0)
    for profiled, expected in ((1, 2), (2, 1), (None, 1)):
        state = snapshot([replace(cautious, profiled_gpus=profiled)], CLUSTER)
        assert gpus(make_policy("goodput", "cost", slowdown=100.0).allocate(state))["new"] == expected


def test_a_running_job_is_resized_only_if_that_pays_for_the_restart() -> None:
    policy = make_policy("goodput", base_s=30)
    running = elastic("r", 0.3, allocation={"h0": 4}, run_seconds=100.0, restarts=9)
    plan = policy.allocate(snapshot([running], CLUSTER))
    assert plan.allocations["r"] == {"h0": 4}, "16 GPUs would be 1.5 times as fast; the restart takes half of the time"
    quick = replace(running, resize_seconds=0.1)
    assert gpus(policy.allocate(snapshot([quick], CLUSTER)))["r"] == 16


@pytest.mark.parametrize("metric", ["default", "speed", "cost"])
def test_a_job_that_is_about_to_end_is_left_alone(metric: str) -> None:
    running = elastic("r", allocation={"h0": 1}, run_seconds=3600.0, resize_seconds=5.0)
    for remaining, left_alone in ((5.0, True), (3600.0, False)):
        plan = make_policy("goodput", metric).allocate(snapshot([replace(running, remaining=remaining)], CLUSTER))
        assert (plan.allocations["r"] == {"h0": 1}) is left_alone
    overdue, drained = replace(running, remaining=0.0), [host("h0", gpus=0), *CLUSTER[1:]]
    plan = make_policy("goodput", metric).allocate(snapshot([overdue, elastic("other")], drained))
    assert set(plan.allocations["r"]) - {"h0"}, "its host is drained: it goes on elsewhere"


@pytest.mark.parametrize("metric", GoodputPolicy.metrics)
def test_every_metric_shares_the_cluster_out(metric: str) -> None:
    plan = make_policy("goodput", metric).allocate(snapshot([elastic("good", 0.95), elastic("bad", 0.2)], CLUSTER))
    assert gpus(plan)["good"] >= gpus(plan)["bad"] >= 1


def test_speed_prefers_the_shorter_of_two_equal_jobs() -> None:
    jobs = [elastic("long", remaining=36000.0), elastic("short", remaining=600.0)]
    plan = gpus(make_policy("goodput", "speed").allocate(snapshot(jobs, CLUSTER)))
    assert plan["short"] > plan["long"]


def test_a_rigid_job_that_waits_long_enough_is_not_starved_by_small_ones() -> None:
    rigid = job("rigid", gpus=16, at=0.0)
    state = snapshot([rigid, *(elastic(f"e{i}", at=900.0) for i in range(16))], CLUSTER, now=1000.0)
    plan = make_policy("goodput").allocate(state)
    assert gpus(plan).get("rigid", 0) == 0
    later = make_policy("goodput").allocate(replace(state, now=500_000.0, jobs=(
        rigid, *(replace(view, submitted_at=499_999.0) for view in state.jobs[1:]))))  # fmt: skip
    assert gpus(later)["rigid"] == 16


def test_types_of_gpus_are_told_apart() -> None:
    """The job that gains by fast GPUs gets them."""

    def picky(num_nodes: Any, num_gpus: Any, gpu_type: str | None = None) -> Any:
        return np.asarray(num_gpus, dtype=float) ** 0.9 * (10.0 if gpu_type == "fast" else 1.0)

    def indifferent(num_nodes: Any, num_gpus: Any, gpu_type: str | None = None) -> Any:
        return np.asarray(num_gpus, dtype=float) ** 0.9

    hosts = [host("slow", gpu_type="slow"), host("fast", gpu_type="fast")]
    jobs = [elastic("picky", goodput=picky, max_gpus=4), elastic("indifferent", goodput=indifferent, max_gpus=4)]
    plan = make_policy("goodput").allocate(snapshot(jobs, hosts))
    assert plan.allocations == {"picky": {"fast": 4}, "indifferent": {"slow": 4}}


def test_jobs_on_a_drained_host_move_and_rigid_ones_stay() -> None:
    moved = elastic("e", allocation={"h0": 2})
    rigid = job("r", gpus=2, allocation={"h1": 2})
    hosts = [host("h0", 0, open=False), host("h1", 2, open=False), host("h2", 4)]
    plan = make_policy("goodput").allocate(snapshot([moved, rigid], hosts))
    assert set(plan.allocations["e"]) == {"h2"}
    assert plan.allocations["r"] == {"h1": 2}


def test_the_weights_of_lengths_go_by_rank_and_equals_share() -> None:
    weights = hesrpt_weights([30.0, 10.0, 20.0, 10.0], 0.6)
    assert weights.sum() == pytest.approx(1)
    assert weights[1] == weights[3] > weights[2] > weights[0]


def test_least_weighted_time_gives_out_gpus_as_hesrpt_does() -> None:
    """Theorem 4 for four jobs and speedups k^0.6: .03, .15, .31 and .51 of the GPUs, the longest job first.

    The minimum sum of w / k^0.6, with the sum of k fixed, is where w / k^1.6 is the same for all.
    """
    weights = hesrpt_weights([40.0, 30.0, 20.0, 10.0], 0.6)
    gpus = weights ** (1 / 1.6)
    assert gpus / gpus.sum() == pytest.approx([0.03125, 0.14553, 0.31036, 0.51286], abs=1e-5)
    time = (weights / gpus**0.6).sum()
    for shifted in np.random.default_rng(0).dirichlet(np.ones(4), 50):
        assert (weights / (shifted * gpus.sum()) ** 0.6).sum() >= time


def test_no_shares_end_jobs_sooner_than_those_of_hesrpt() -> None:
    """Three divisible jobs with speedups k^0.6, until the last one has ended."""
    shares = [hesrpt_weights(left, 0.6) ** (1 / 1.6) for left in ([1.0], [2.0, 1.0], [3.0, 2.0, 1.0])]

    def total_time(shares: list[np.ndarray]) -> float:
        left, now, total = np.array([30.0, 17.0, 9.0]), 0.0, 0.0
        while len(left):
            speeds = (shares[len(left) - 1] / shares[len(left) - 1].sum()) ** 0.6
            ends = int((left / speeds).argmin())
            step = left[ends] / speeds[ends]
            now, left = now + step, np.delete(left - step * speeds, ends)
            total += now
        return total

    dice, least = np.random.default_rng(0), total_time(shares)
    for scale in (0.01, 0.1, 1.0):
        for _ in range(100):
            others = [each * np.exp(scale * dice.standard_normal(len(each))) for each in shares]
            assert total_time(others) >= least * (1 - 1e-9)


def test_utility_counts_the_gpus_that_jobs_still_have_on_a_host_that_is_drained() -> None:
    jobs = [job("stays", gpus=4, allocation={"h2": 4}), job("new", gpus=1)]
    plan = make_policy("goodput").allocate(snapshot(jobs, [host(), host("h2", open=False)]))
    assert plan.utility == pytest.approx(5 / 8)


def test_hosts_are_asked_for_by_utility() -> None:
    """The maximum speedup is that of 40 GPUs; hosts have 4."""
    hosts = [host(f"h{i}") for i in range(10)]

    def utility(work: float) -> Any:
        return lambda count: min(1.0, work / (4 * count))

    scaling = HostScaling(0.35, 0.65)
    assert scaling.desired(hosts, utility(20)) == 10, "half used: as it should be"
    assert scaling.desired(hosts, utility(40)) == 10, "there are no more"
    assert scaling.desired(hosts, utility(4)) == 2
    assert HostScaling(0.35, 0.80).desired(hosts, utility(4)) == 2
    assert scaling.desired(hosts, utility(0)) == 1


def test_both_thresholds_of_the_scaling_are_parameters() -> None:
    def thresholds(metric: str, **given: float) -> tuple[float, float]:
        scaling = make_policy("goodput", metric, **given).scaling
        assert scaling is not None
        return scaling.low, scaling.high

    assert thresholds("thesis-default") == thresholds("thesis-speed") == (0.35, 0.65)
    assert thresholds("thesis-cost") == (0.35, 0.80)
    assert thresholds("thesis-cost", low_utility=0.2, high_utility=0.9) == (0.2, 0.9)
    runs = [elastic("a", allocation={"h0": 4})]
    hosts = [host("h0"), host("h1", 0, open=False, parked_gpus=4)]
    early, late = (
        make_policy("goodput", "thesis-default", high_utility=high).allocate(snapshot(runs, hosts))
        for high in (0.5, 0.99)
    )
    assert (early.desired_hosts, late.desired_hosts) == (2, 1), early.utility
    with pytest.raises(InvalidError, match="low_utility"):
        make_policy("goodput", low_utility=0.7)


def sizes(metric: str, jobs: list[JobView], gpus: int = 16) -> dict[str, int]:
    plan = make_policy("goodput", metric).allocate(snapshot(jobs, [host("h0", gpus)]))
    return {job_id: sum(allocation.values()) for job_id, allocation in plan.allocations.items()}


@pytest.mark.parametrize("metric", ["default", "speed", "cost", "balanced"])
def test_a_job_whose_metric_is_cost_gets_fewer_gpus_and_none_that_are_left_over(metric: str) -> None:
    def few(own: str | None) -> int:
        job = elastic("a", power=0.2, profiled_gpus=16, metric=own)
        return sizes(metric, [job])["a"]

    assert few("cost") < few("speed") == few("default") == 16, "alone it may have all of them"
    assert few(None) == few({"balanced": None}.get(metric, metric))


@pytest.mark.parametrize("metric", ["default", "speed", "cost"])
def test_all_jobs_with_one_metric_are_decided_on_as_by_a_policy_of_that_metric(metric: str) -> None:
    powers = (0.9, 0.7, 0.5)

    def plan_of(policy: str, own: str | None) -> dict[str, int]:
        return sizes(
            policy, [elastic(f"j{i}", power=p, profiled_gpus=16, metric=own) for i, p in enumerate(powers)], gpus=8
        )

    assert plan_of(metric, metric) == plan_of(metric, None)
    assert sum(plan_of("cost", metric).values()) == sum(plan_of(metric, None).values())


def test_by_speed_a_short_job_goes_first_and_by_default_it_does_not() -> None:
    """Run times are declared; three of four jobs fit."""

    def runs(own: str | None) -> bool:
        known = {"min_gpus": 2, "attained_gpu_seconds": 100.0, "submitted_at": 1.0}
        jobs = [elastic(f"long{i}", remaining=90_000.0, **known) for i in range(3)]
        short = elastic("short", remaining=100.0, **{**known, "submitted_at": 2.0}, metric=own)
        return "short" in sizes("default", [*jobs, short], 6)

    assert (runs("speed"), runs("default"), runs(None)) == (True, False, False)


def test_under_the_metrics_of_the_thesis_speed_ignores_efficiency() -> None:
    for policy, own, efficient in (
        ("thesis-default", None, True), ("thesis-default", "speed", False), ("thesis-speed", None, False),
        ("thesis-speed", "cost", True), ("thesis-speed", "speed", False), ("speed", "speed", True),
    ):  # fmt: skip
        assert make_policy("goodput", policy).uses_efficiency_for(own) is efficient, (policy, own)
    assert make_policy("fifo").uses_efficiency_for("speed")


def test_parameters_are_checked() -> None:
    with pytest.raises(InvalidError, match="frugality"):
        make_policy("goodput", "balanced", frugality=2)
    with pytest.raises(InvalidError, match="thesis-cost"):
        make_policy("goodput", "wealth")


def test_of_equal_jobs_the_first_come_get_the_gpus() -> None:
    jobs = [elastic(f"j{i}", submitted_at=100.0) for i in range(6)]
    for metric in GoodputPolicy.metrics:
        plan = make_policy("goodput", metric).allocate(snapshot(jobs, [host("h0")]))
        assert sorted(plan.allocations) == ["j0", "j1", "j2", "j3"], metric


def test_cost_keeps_to_its_bound_where_nobody_else_wants_the_gpus() -> None:
    """One job that could have all GPUs. At its own price it would take far fewer than would help it most."""
    state = snapshot([elastic("alone", 0.6, max_gpus=16)], CLUSTER)
    speed = {metric: gpus(make_policy("goodput", metric).allocate(state))["alone"] for metric in ("speed", "cost")}
    sizes = {}
    for slowdown in (1.0, 1.25, 1.6, 100.0):
        plan = make_policy("goodput", "cost", slowdown=slowdown).allocate(state)
        sizes[slowdown] = gpus(plan)["alone"]
        assert (speed["speed"] / sizes[slowdown]) ** 0.6 <= slowdown + 1e-9
    assert sizes[1.0] == speed["speed"]
    assert sizes[100.0] <= sizes[1.6] <= sizes[1.25] <= sizes[1.0]
    assert sizes[100.0] < sizes[1.25]
    with pytest.raises(InvalidError, match="slowdown"):
        make_policy("goodput", "cost", slowdown=0.5)


def test_cost_asks_of_every_job_the_same_whatever_its_weight() -> None:
    """Otherwise old jobs would be delayed beyond what their GPUs cost."""
    old = elastic("old", 0.5, attained_gpu_seconds=1e6, run_seconds=1e5)
    plan = make_policy("goodput", "cost").allocate(snapshot([old, elastic("new", 0.5)], CLUSTER))
    assert gpus(plan)["old"] == gpus(plan)["new"]


@st.composite
def places(draw: st.DrawFn, hosts: list[str], width: int) -> dict[str, dict[str, int]]:
    """Draw places of at most 8 jobs on hosts of `width` GPUs."""
    left = dict.fromkeys(hosts, width)
    jobs: dict[str, dict[str, int]] = {}
    for number in range(draw(st.integers(0, 8))):
        for name in draw(st.lists(st.sampled_from(hosts), min_size=1, max_size=2, unique=True)):
            if (count := draw(st.integers(0, left[name]))) > 0:
                left[name] -= count
                jobs.setdefault(f"j{number}", {})[name] = count
    return jobs


@given(data=st.data())
def test_exchanging_equal_hosts_moves_no_more_and_nobody_who_stays(data: st.DataObject) -> None:
    names = [f"h{i}" for i in range(5)]
    hosts = [HostView(name, 4, "a" if i < 4 else "b") for i, name in enumerate(names)]
    held = data.draw(places(names, 4))
    plan = data.draw(places(names, 4))
    jobs = [JobView(f"j{i}", float(i), 1, elastic=True, max_gpus=8, allocation=held.get(f"j{i}", {})) for i in range(8)]

    def kept(allocations: dict[str, dict[str, int]]) -> int:
        return sum(min(n, held.get(j, {}).get(h, 0)) for j, mine in allocations.items() for h, n in mine.items())

    bound = rebind(plan, jobs, hosts)
    assert kept(bound) >= kept(plan)
    assert {job: sorted(mine.values()) for job, mine in bound.items()} == {
        job: sorted(mine.values()) for job, mine in plan.items()
    }
    for name in names:
        assert sum(mine.get(name, 0) for mine in bound.values()) <= 4
    assert all(bound[job] == plan[job] for job in plan if plan[job] == held.get(job))
    assert rebind(bound, jobs, hosts) == bound, "there is nothing more to win"


def test_jobs_that_only_swapped_their_hosts_stay_where_they_are() -> None:
    hosts = [HostView("h1", 4), HostView("h2", 4)]
    jobs = [JobView("a", 0.0, 1, elastic=True, max_gpus=4, allocation={"h1": 2})]
    jobs.append(JobView("b", 1.0, 1, elastic=True, max_gpus=4, allocation={"h2": 3}))
    assert rebind({"a": {"h2": 4}, "b": {"h1": 3}}, jobs, hosts) == {"a": {"h1": 4}, "b": {"h2": 3}}
