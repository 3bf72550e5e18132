"""How many hosts are wanted on, whatever the policy."""

import pytest
from builders import host, job, snapshot
from hypothesis import example, given
from hypothesis import strategies as st

from schedulearn.scheduler.core.host_scaling import HostLoad, ScaleDownDelay, ScalingRule, steps
from schedulearn.scheduler.core.model import Allocation, Explanation, HostView, JobView, Plan
from schedulearn.scheduler.core.planning.hosts_wanted import hosts_wanted, with_hosts_wanted
from schedulearn.scheduler.core.policy import plan_faults
from schedulearn.scheduler.policies.registry import POLICIES, make_policy

RULE = ScalingRule()


def parked(id: str, gpus: int = 4, **fields: str) -> HostView:
    return host(id, 0, open=False, parked_gpus=gpus, **fields)


def wanted(
    jobs: list[JobView],
    hosts: list[HostView],
    allocations: dict[str, Allocation] | None = None,
    rule: ScalingRule = RULE,
    **plan: object,
) -> int:
    given = Plan(allocations or {}, **plan)  # type: ignore[arg-type]
    return hosts_wanted(snapshot(jobs, hosts), given, rule)


def test_hosts_without_jobs_are_not_wanted_and_one_stays() -> None:
    hosts = [host("a"), host("b"), host("c")]
    assert wanted([job("j")], hosts, {"j": {"b": 1}}) == 1
    assert wanted([], hosts) == 1
    assert wanted([job("i"), job("j")], hosts, {"i": {"a": 1}, "j": {"b": 4}}) == 2


def test_a_job_without_room_wakes_a_host_beside_all_that_are_on() -> None:
    running = {"j": {"a": 4}}
    hosts = [host("a"), host("idle", 1), parked("b"), parked("c")]
    assert wanted([job("j", gpus=4), job("k", gpus=2)], hosts, running) == 3, "the idle host is too small for it"
    several = [job("j", gpus=4), *(job(f"k{i}", gpus=2) for i in range(3))]
    assert wanted(several, hosts, running) == 4, "two fit on one, the third needs another"


def test_a_job_over_several_hosts_wakes_as_many_as_it_needs_of_one_type() -> None:
    hosts = [
        host("a", 4, gpu_type="x"),
        parked("b", gpu_type="y"),
        parked("c", gpu_type="x"),
        parked("d", gpu_type="x"),
    ]
    assert wanted([job("j", gpus=8)], hosts) == 2
    assert wanted([job("j", gpus=12)], hosts) == 3
    assert wanted([job("j", gpus=17)], hosts) == 1, "no hosts would do"


def test_while_a_job_waits_for_others_to_end_idle_hosts_stay_on() -> None:
    hosts = [host("a"), host("b"), host("c")]
    jobs = [job("long", gpus=4), job("large", gpus=12)]
    assert wanted(jobs, hosts, {"long": {"a": 4}}) == 3
    assert wanted([job("long", gpus=4), job("too-large", gpus=13)], hosts, {"long": {"a": 4}}) == 1


def test_an_elastic_job_needs_what_it_asks_for_or_else_its_least_size() -> None:
    hosts = [host("a"), parked("b"), parked("c")]
    job_of = {"elastic": True, "min_gpus": 1}
    assert wanted([job("j", gpus=4), job("k", gpus=8, **job_of)], hosts, {"j": {"a": 4}}) == 3
    assert wanted([job("j", gpus=4), job("k", gpus=99, **job_of)], hosts, {"j": {"a": 4}}) == 2


def test_jobs_that_wait_for_their_quota_wake_nobody() -> None:
    hosts = [host("a"), parked("b")]
    reasons = {"k": Explanation("over_quota", "It may hold 4.")}
    assert wanted([job("j", gpus=4), job("k", gpus=4)], hosts, {"j": {"a": 4}}, reasons=reasons) == 1


def test_the_policys_own_wish_counts_within_the_bounds() -> None:
    hosts = [host(name) for name in "abcd"]
    for wish, rule, expected in (
        (3, RULE, 3), (3, ScalingRule(most=2), 2), (1, ScalingRule(least=2), 2), (9, ScalingRule(), 9)
    ):  # fmt: skip
        assert wanted([], hosts, rule=rule, desired_hosts=wish) == expected
    own = with_hosts_wanted(lambda seen: Plan({}, desired_hosts=2), snapshot([], hosts), RULE)
    needed = with_hosts_wanted(lambda seen: Plan({}), snapshot([], hosts), RULE)
    assert (own.parks_idle_only, needed.parks_idle_only) == (False, True)


def test_the_number_follows_the_target() -> None:
    """ceil(n x value / target), as the Horizontal Pod Autoscaler has it, and nothing within a tenth of the target."""
    hosts = [host(name, 10) for name in "abcd"] + [parked(name, 10) for name in "efgh"]
    rule = ScalingRule(target=0.5)

    def at(gpus: int, **plan: object) -> int:
        jobs = [job(f"j{i}") for i in range(gpus)]
        return wanted(jobs, hosts, {f"j{i}": {"a": 1} for i in range(gpus)}, rule, **plan)

    assert at(40) == 8
    assert at(27) == 6, "4 x 0.675 / 0.5 = 5.4"
    assert at(22) == 4, "a tenth above"
    assert at(18) == 4, "a tenth below"
    assert at(10) == 2
    assert at(0) == 1
    assert at(10, utility=0.8) == 7, "the policy knows better how well the GPUs are used"
    assert at(10, desired_hosts=1) == 2, "a target is above the policy's wish"


def test_the_highest_wish_of_the_window_counts_from_the_initial_number_on() -> None:
    delay = ScaleDownDelay(300.0, initial=3)
    seen = [
        delay.settle(float(at), wish)
        for at, wish in ((0, 1), (299, 1), (301, 1), (302, 5), (600, 2), (899, 2), (901, 2))
    ]
    assert seen == [3, 3, 1, 5, 5, 5, 2]


def test_only_idle_hosts_are_parked_where_jobs_need_not_leave() -> None:
    loads = [HostLoad("a", on=True, held=1), HostLoad("b", on=True, held=2), HostLoad("c", on=True)]
    assert steps(loads, 1, idle_only=True) == [("c", "close")]
    assert steps(loads, 1) == [("c", "close"), ("a", "close")]


@pytest.mark.parametrize(
    "fields", [{"least": 0}, {"least": 3, "most": 2}, {"most": 2, "initial": 3}, {"target": 0.0}, {"target": 1.5}]
)
def test_a_rule_that_says_no_number_is_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"host|target"):
        ScalingRule(**fields)  # type: ignore[arg-type]


@given(
    name=st.sampled_from(sorted(POLICIES)),
    needs=st.lists(st.integers(1, 9), max_size=6),
    on=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    off=st.lists(st.integers(1, 4), max_size=4),
)
@example(name="goodput", needs=[5], on=[1], off=[1, 1, 2])  # a host more or less than their mean size says
@example(name="edf", needs=[3, 2, 1], on=[1], off=[1, 2, 1])  # the last one waits for the second, not for a host
def test_every_rigid_job_that_fits_the_cluster_gets_its_hosts_under_every_policy(
    name: str, needs: list[int], on: list[int], off: list[int]
) -> None:
    """Hosts are woken until nothing changes: then no job waits that a host which is off would hold, and that would
    start if all were on (and not wait behind another)."""
    jobs = [job(f"j{i}", at=float(i), gpus=gpus) for i, gpus in enumerate(needs)]
    hosts = [host(f"on{i}", gpus) for i, gpus in enumerate(on)] + [parked(f"z{i}", n) for i, n in enumerate(off)]
    policy = make_policy(name)
    for _ in range(len(off) + 1):
        seen = snapshot(jobs, hosts)
        plan = policy.allocate(seen)
        assert plan_faults(seen, plan) == []
        count = hosts_wanted(seen, plan, RULE)
        awake = sum(1 for each in hosts if each.open)
        asleep = [i for i, each in enumerate(hosts) if not each.open]
        assert 1 <= count <= len(hosts)
        if count <= awake or not asleep:
            break
        for i in asleep[: count - awake]:
            hosts[i] = host(hosts[i].id, hosts[i].parked_gpus)
    sleeping = [each.parked_gpus for each in hosts if not each.open]
    if name == "goodput":
        return
    all_on = [each if each.open else host(each.id, each.parked_gpus) for each in hosts]
    starts = policy.allocate(snapshot(jobs, all_on)).allocations
    for each in jobs:
        if each.id not in plan.allocations and each.id in starts:
            assert max(sleeping, default=0) < each.required_gpus, "it would have started there"
