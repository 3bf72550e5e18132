"""Who is planned, fetched for and left out while images are missing; without agents or a database."""

import math
from collections.abc import Mapping

import pytest
from builders import host, job, job_record, snapshot
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.scheduler.core.cluster_state import Job
from schedulearn.scheduler.core.model import JobView, Plan, Snapshot
from schedulearn.scheduler.core.planning.fetching import (
    ROUNDS,
    ImagePlan,
    fetch_hosts,
    how_long,
    plan_with_images,
    refused_fetches,
    seconds_left,
)
from schedulearn.scheduler.core.policy import plan_faults
from schedulearn.scheduler.policies.registry import POLICIES, make_policy

Known = Mapping[tuple[str, str], bool | None]


def look(state: Snapshot, known: Known, policy: str = "fifo", **params: object) -> ImagePlan:
    """`known`: (job, host) -> whether the image is there; it is where nothing else is said."""
    made = make_policy(policy, **params)

    def ask(seen: Snapshot) -> Plan:
        plan = made.allocate(seen)
        assert plan_faults(seen, plan) == []
        return plan

    return plan_with_images(ask, state, lambda job, host: known.get((job, host), True))


def plan_of(decision: ImagePlan) -> Mapping[str, Mapping[str, int]]:
    return {job: dict(to) for job, to in decision.plan.allocations.items() if to}


def test_jobs_pass_one_whose_image_is_missing_and_it_is_fetched_where_the_job_would_go() -> None:
    found = look(snapshot([job("a", gpus=4), job("b", at=1, gpus=4)]), {("a", "h1"): False})
    assert plan_of(found) == {"b": {"h1": 4}}
    assert found.fetch == {"a": ("h1",)}


def test_gpus_are_kept_for_a_job_until_it_is_known_whether_its_image_is_there() -> None:
    found = look(snapshot([job("a", gpus=4), job("b", at=1, gpus=4)]), {("a", "h1"): None})
    assert (plan_of(found), found.fetch, found.look) == ({}, {}, {("a", "h1")})


def test_jobs_whose_image_is_nowhere_are_left_out_and_told_why() -> None:
    jobs = [job(name, at=at, gpus=2) for at, name in enumerate("abcd")]
    known = {(name, "h1"): False for name in "abc"}
    found = look(snapshot(jobs), known)
    assert found.fetch == {"a": ("h1",), "b": ("h1",)}
    assert plan_of(found) == {"d": {"h1": 2}}
    assert found.plan is not None
    assert getattr(found.plan.reasons["c"], "code", "") == "waiting_for_image"


def test_a_job_goes_to_a_host_like_it_that_has_its_image_and_room() -> None:
    state = snapshot([job("a", gpus=2)], [host("h1"), host("h2", gpu_type="other"), host("h3", 1), host("h4")])
    found = look(state, {("a", "h1"): False})
    assert (plan_of(found), found.fetch) == ({"a": {"h4": 2}}, {})


def test_a_job_does_not_go_to_a_host_with_its_image_where_it_cannot_run_or_another_is_alone() -> None:
    hosts = [host("h1"), host("h2"), host("h3")]
    alone = job("e", gpus=1, exclusive=True, allocation={"h2": 1})
    wants = job("a", at=1, unfit={"h3": "h3 has room=b1"})
    found = look(snapshot([alone, wants], hosts), {("a", "h1"): False})
    assert found.fetch == {"a": ("h1",)}
    assert plan_of(found) == {"e": {"h2": 1}}


def test_a_running_job_is_moved_only_once_its_image_is_where_it_goes() -> None:
    mover = job("m", elastic=True, allocation={"h1": 1}, run_seconds=50.0)

    class Move:
        name = "move"

        def allocate(self, seen: Snapshot) -> Plan:
            [view] = (view for view in seen.jobs if view.id == "m")
            others = {view.id: {"h2": 4} for view in seen.jobs if view.id != "m" and not view.elastic}
            if not view.elastic:
                return Plan({"m": view.allocation, **others})
            return Plan({"m": {"h2": 4}})

    state = snapshot([mover, job("w", at=1, gpus=4)], [host("h1"), host("h2")])
    policy = Move()
    found = plan_with_images(policy.allocate, state, lambda name, at: (name, at) != ("m", "h2"))
    assert found.fetch == {"m": ("h2",)}
    assert plan_of(found) == {"m": {"h1": 1}, "w": {"h2": 4}}, "others use the GPUs meanwhile"


@pytest.mark.parametrize("there", [None, False])
def test_no_running_job_is_shrunk_before_it_is_known_that_the_image_is_there(there: bool | None) -> None:
    runs = job("e", elastic=True, gpus=4, max_gpus=4, allocation={"h1": 4}, run_seconds=900.0, profiled_gpus=4)
    found = look(snapshot([runs, job("w", at=1, gpus=2)]), {("w", "h1"): there}, "elastic-fifo", min_run=0)
    assert plan_of(found) == {"e": {"h1": 4}}
    ready = look(snapshot([runs, job("w", at=1, gpus=2)]), {}, "elastic-fifo", min_run=0)
    assert plan_of(ready) == {"e": {"h1": 2}, "w": {"h1": 2}}, "it would be shrunk for one that can start"


def test_what_is_taken_goes_to_jobs_that_can_start_also_where_the_policy_is_not_asked_again() -> None:
    """More jobs than rounds, each of which finds its image on another host only."""
    running = [
        job(name, elastic=True, gpus=2, max_gpus=2, allocation={"h1": 2}, run_seconds=900.0) for name in ("e", "f")
    ]
    waiting = [job(f"w{at}", at=at, gpus=1) for at in range(1, 7)]

    def allocate(seen: Snapshot) -> Plan:
        first = next((view.id for view in seen.jobs if not view.elastic), None)
        if first is None:
            return Plan({"e": {"h1": 2}, "f": {"h1": 2}})
        return Plan({"e": {"h1": 1}, "f": {"h1": 1}, first: {"h1": 1}, "w6": {"h1": 1}})

    state = snapshot([*running, *waiting], [host(), host("h2", 0)])
    found = plan_with_images(allocate, state, lambda name, at: at == "h2" or name in ("w6", "e", "f"))
    assert len(found.fetch) == ROUNDS
    assert plan_of(found) == {"e": {"h1": 2}, "f": {"h1": 1}, "w6": {"h1": 1}}


@pytest.mark.parametrize(("soon", "gpus"), [(True, 2), (False, 4)])
def test_a_running_job_does_not_grow_for_a_moment(soon: bool, gpus: int) -> None:
    grower = job("g", elastic=True, gpus=2, max_gpus=4, allocation={"h1": 2}, run_seconds=900.0, profiled_gpus=2)

    def allocate(seen: Snapshot) -> Plan:
        waiting = {view.id: {"h1": 2} for view in seen.jobs if view.id == "w"}
        return Plan({"g": {"h1": min(4 - 2 * len(waiting), seen.jobs[0].max_gpus)}, **waiting})

    state = snapshot([grower, job("w", at=1, gpus=2)], [host()])
    found = plan_with_images(allocate, state, lambda name, at: name != "w", lambda name: soon)
    assert found.fetch == {"w": ("h1",)}
    assert plan_of(found) == {"g": {"h1": gpus}}


@given(st.data())
def test_whatever_is_missing_the_plan_is_lawful_and_gives_gpus_only_where_images_are(data: st.DataObject) -> None:
    hosts = [host(f"h{i}", data.draw(st.integers(1, 4))) for i in range(data.draw(st.integers(1, 3)))]
    jobs: list[JobView] = [
        job(f"j{i}", at=float(i), gpus=data.draw(st.integers(1, 4))) for i in range(data.draw(st.integers(0, 8)))
    ]
    known = {(view.id, each.id): data.draw(st.sampled_from([True, False, None])) for view in jobs for each in hosts}
    name = data.draw(st.sampled_from(sorted(POLICIES)))
    state, asked = snapshot(jobs, hosts), []
    policy = make_policy(name)
    found = plan_with_images(lambda seen: asked.append(seen) or policy.allocate(seen), state, lambda j, h: known[j, h])
    assert len(asked) <= ROUNDS
    assert found.plan is not None
    assert plan_faults(state, found.plan) == []
    for view, to in found.plan.allocations.items():
        assert all(known[view, at] for at in to)
    for view, where in found.fetch.items():
        assert where
        assert not any(known[view, at] for at in where)
        assert not found.plan.allocations.get(view)


def row(state: str = "pulling", fetch: tuple[str, ...] = ("h1",)) -> dict[str, Job]:
    return {"j": job_record("j", state, fetch_hosts=list(fetch))}


@pytest.mark.parametrize(
    ("fetch", "decided", "in_service", "there", "fetching", "expected"),
    [
        ((), ("h1",), "h1 h2", "", "", ("h1",)),
        (("h1",), ("h2",), "h1 h2", "", "h1", ("h1",)),  # it goes on where it began
        (("h1",), ("h2",), "h1 h2", "", "", ("h2",)),  # it failed there a moment ago
        (("h1",), (), "h1 h2", "", "", ("h1",)),  # no GPU is free for it just now
        (("h1",), ("h2",), "h2", "", "", ("h2",)),  # closed or lost
        (("h1",), (), "h2", "", "", None),
        (("h1",), (), "h1 h2", "h1", "", None),  # it is there
        (("h1", "h2"), ("h1", "h2"), "h1 h2", "h1", "h2", ("h2",)),
    ],
)
def test_where_an_image_is_fetched(
    fetch: tuple[str, ...],
    decided: tuple[str, ...],
    in_service: str,
    there: str,
    fetching: str,
    expected: tuple[str, ...] | None,
) -> None:
    found = fetch_hosts(
        row("pulling" if fetch else "queued", fetch),
        {"j": decided} if decided else {},
        set(in_service.split()),
        lambda job, host: host in there.split(),
        lambda job, host: host in fetching.split(),
    )
    assert found.get("j") == expected


def test_a_fetch_that_failed_for_good_ends_only_those_that_pull_there() -> None:
    refuse = {"h1": "no such tag"}
    [moved] = refused_fetches(row(), lambda job, host: refuse.get(host))
    assert (moved.reason, moved.message) == ("image_unavailable", "no such tag")
    assert refused_fetches(row(fetch=("h2",)), lambda job, host: refuse.get(host)) == []
    assert refused_fetches(row("queued"), lambda job, host: refuse.get(host)) == []


def test_how_long_a_fetch_still_takes_is_told_only_once_it_has_got_somewhere() -> None:
    assert seconds_left(50.0, 60.0) == 60.0
    assert seconds_left(75.0, 90.0) == pytest.approx(30.0)
    assert seconds_left(1.0, 600.0) is None
    assert seconds_left(90.0, 1.0) is None
    assert math.isclose(seconds_left(100.0, 9.0) or 0.0, 0.0)


@pytest.mark.parametrize(
    ("percent", "elapsed", "still", "says"),
    [
        (50.0, 60.0, 0.0, "about 30 s to 2 min left"),
        (50.0, 60.0, 100.0, "about 30 s to 2 min left"),
        (81.0, 64.0, 300.0, "no progress for 5 min, so its end is unknown"),
        (81.0, 64.0, 310.0, "no progress for 5 min, so its end is unknown"),
        (81.0, 64.0, 10_000.0, "no progress for 2.0 h, so its end is unknown"),
        (100.0, 60.0, 21.0, "no progress for 20 s, so its end is unknown"),
        (1.0, 3.0, 19.0, "the time left is not known yet"),
        (1.0, 3.0, 90.0, "no progress for 60 s, so its end is unknown"),
    ],
)
def test_no_estimate_is_shown_for_longer_than_it_could_hold(
    percent: float, elapsed: float, still: float, says: str
) -> None:
    """A build showed "about 15 s left" for five minutes."""
    assert how_long(percent, elapsed, still) == says
