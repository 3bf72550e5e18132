"""Where jobs of given sizes go, and who is moved for whom."""

import dataclasses

from builders import PowerLaw, host, job, snapshot

from schedulearn.scheduler.core.model import IN_PLACE_S, RESTART_S, JobView
from schedulearn.scheduler.policies.goodput.packing import Want, pack
from schedulearn.scheduler.policies.registry import make_policy

HOSTS = [host("h0"), host("h1")]
STAYS_A, STAYS_B, BIG = Want(1, "gpu", True), Want(2, "gpu", True), Want(4, "gpu")


def running(id: str, at: str, gpus: int) -> JobView:
    return job(id, elastic=True, allocation={at: gpus})


def test_a_large_job_clears_the_emptiest_host_and_nobody_else_moves() -> None:
    jobs = [running("a", "h0", 1), running("b", "h1", 2), job("big", elastic=True)]
    placed = pack({"a": STAYS_A, "b": STAYS_B, "big": BIG}, jobs, HOSTS)
    assert placed == {"b": {"h1": 2}, "big": {"h0": 4}, "a": {"h1": 1}}


def test_nobody_is_put_beside_a_job_that_can_grow_in_place_while_another_host_has_room() -> None:
    jobs = [running("a", "h0", 3), job("new", elastic=True), job("newer", elastic=True)]
    wants = {"a": Want(3, "gpu", True), "new": Want(1, "gpu")}
    assert pack(wants, jobs, HOSTS)["new"] == {"h0": 1}, "where it fits most tightly"
    assert pack(wants, jobs, HOSTS, growing={"a"})["new"] == {"h1": 1}
    both = pack({**wants, "newer": Want(3, "gpu")}, jobs, HOSTS, growing={"a", "newer"})
    assert (both["newer"], both["new"]) == ({"h1": 3}, {"h0": 1}), "no host is without one"


def test_a_price_of_its_own_keeps_jobs_in_place_together() -> None:
    """Under `cost` a host more is what is paid for."""
    here = job("a", at=0.0, elastic=True, max_gpus=1, in_place=True, allocation={"h0": 1}, goodput=PowerLaw(0.9))
    new = job("b", at=1.0, elastic=True, max_gpus=1, in_place=True)
    hosts = [host("h0", 2), host("h1", 2)]
    for metric, where in (("cost", "h0"), ("default", "h1"), ("speed", "h1")):
        plan = make_policy("goodput", metric).allocate(snapshot([here, new], hosts))
        assert plan.allocations == {"a": {"h0": 1}, "b": {where: 1}}, metric


def test_nobody_is_moved_if_it_is_not_to_clear_hosts() -> None:
    jobs = [running("a", "h0", 1), running("b", "h1", 2), job("big", elastic=True)]
    placed = pack({"a": STAYS_A, "b": STAYS_B, "big": BIG}, jobs, HOSTS, clears=False)
    assert placed == {"a": {"h0": 1}, "b": {"h1": 2}, "big": {"h0": 3}}


def test_of_jobs_in_place_the_one_that_has_room_grows_and_nobody_moves() -> None:
    """Six GPUs, five jobs: whichever gains most by the sixth GPU, another one has it beside its own."""
    places = ["h0", "h0", "h1", "h1", "h2"]
    jobs = [
        job(
            f"j{at}", at=float(at), elastic=True, max_gpus=2, allocation={place: 1}, goodput=PowerLaw(0.9),
            in_place=True, profiled_gpus=1, resize_seconds=1.0,
            attained_gpu_seconds=100.0 - 10 * at, run_seconds=100.0 - 10 * at,
        )
        for at, place in enumerate(places)
    ]  # fmt: skip
    hosts = [host(f"h{at}", 2) for at in range(3)]
    for metric in ("default", "speed"):
        plan = make_policy("goodput", metric).allocate(snapshot(jobs, hosts))
        assert plan.allocations == {each.id: {p: 1} for each, p in zip(jobs, places, strict=True)} | {"j4": {"h2": 2}}


def test_a_job_in_place_pays_a_restart_where_it_leaves_its_host() -> None:
    here = job(in_place=True, resize_seconds=1.0)
    assert (here.restart_cost, here.move_cost) == (1.0, RESTART_S)
    assert dataclasses.replace(here, in_place=False).move_cost == 1.0


def test_a_restart_is_expected_to_take_twice_as_long_as_the_start_did() -> None:
    started = job(startup_seconds=3.0)
    assert (started.restart_cost, started.move_cost) == (6.0, 6.0)
    in_place = dataclasses.replace(started, in_place=True)
    assert (in_place.restart_cost, in_place.move_cost) == (IN_PLACE_S, 6.0)
    assert dataclasses.replace(started, resize_seconds=9.0).restart_cost == 9.0
    assert job().restart_cost == RESTART_S
