"""The six applications that were measured take as long in our simulator as in the artifact of Pollux (OSDI 2021)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from schedulearn.scheduler.core.model import Plan, Snapshot
from schedulearn.scheduler.core.policy import Policy
from schedulearn.scheduler.sim.application import Measured, measured_applications
from schedulearn.scheduler.sim.arguments import equal_hosts
from schedulearn.scheduler.sim.conditions import POLLUX
from schedulearn.scheduler.sim.simulator import simulate
from schedulearn.scheduler.sim.workload import TraceJob

SIZES = (1, 2, 4, 8, 16)
ARTIFACT = {
    "cifar10": (3775, 2244, 1232, 914, 628),
    "ncf": (124, 140, 165, 165, 165),
    "imagenet": (532463, 276744, 150719, 80814, 43091),
    "bert": (13644, 6912, 3529, 2640, 1562),
    "deepspeech2": (18285, 9818, 5335, 3559, 2162),
    "yolov3": (33778, 18675, 13349, 15072, 9192),
}
"""Seconds of a job that gets a GPU, a minute later two, and so on up to each of SIZES; measured in the artifact."""


class Growing(Policy):
    """One job, on twice as many GPUs after every minute, up to `most`."""

    name: ClassVar[str] = "growing"
    resizes: ClassVar[bool] = True

    def __init__(self, most: int) -> None:
        self.most = most

    def allocate(self, snapshot: Snapshot) -> Plan:
        [job] = snapshot.jobs
        wanted, allocation = min(max(1, 2 * job.gpus), self.most), {}
        for host in snapshot.hosts:
            allocation[host.id] = min(host.gpus, wanted - sum(allocation.values()))
        return Plan({job.id: {host: gpus for host, gpus in allocation.items() if gpus}})


@pytest.mark.parametrize("name", sorted(ARTIFACT))
def test_a_job_alone_takes_as_long_as_in_the_artifact(name: str) -> None:
    application = replace(measured_applications()[name], fixed_batch=None, gpus=None)
    for most, seconds in zip(SIZES, ARTIFACT[name], strict=True):
        [outcome] = simulate(Growing(most), [TraceJob("a", 0.0, application)], equal_hosts(4, 4), POLLUX).outcomes
        assert outcome.ended_at == pytest.approx(seconds, rel=0.02), f"on {most} GPUs"


def test_passes_between_those_measured() -> None:
    """By hand: 1 GPU took 1 s with 10 samples and 3 s with 20; two hosts with one GPU each were never tried."""
    rows = [[2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0], [3.0, 4.0, 3.0, 4.0, 4.0, 5.0, 8.0], [10.0, 20.0] * 3 + [10.0]]
    by_size = np.array([*rows, [5.0, 7.0, 6.0, 8.0, 9.0, 9.5, 9.0], [1.0] * 7])
    times = Measured({"1": np.array([[10.0, 20.0], [1.0, 3.0], [0.2, 0.4]])}, by_size)
    assert times.passes((1,), 15) == pytest.approx((1.7, 2.0))
    assert times.passes((1,), 15, speed=2.0) == pytest.approx((0.85, 1.15)), "networks are not faster"
    grad, whole = times.passes((2, 1), 10)
    assert (grad, whole) == pytest.approx((4.0, 5.0))


def test_what_nobody_measured_is_never_faster_than_the_largest_that_somebody_did() -> None:
    """8 GPUs of one host, and 32 hosts: synchronising takes at least as long as with 4 and 16."""
    for application in measured_applications().values():
        assert application.times is not None
        local = application.bounds.min_local
        assert application.times.passes((8,), local)[1] >= application.times.passes((4,), local)[1]
        many = [application.times.passes((4,) * hosts, local)[1] for hosts in (16, 17, 32)]
        assert many == sorted(many)


def test_every_size_and_batch_of_the_measured_applications_has_a_time() -> None:
    for application in measured_applications().values():
        bounds = application.bounds
        assert application.times is not None
        assert bounds.max_local is not None
        for hosts in range(1, 17):
            for gpus in range(hosts, 4 * hosts + 1, 3):
                placement = tuple(gpus // hosts + (at < gpus % hosts) for at in range(hosts))
                for local in {bounds.min_local, (bounds.min_local + bounds.max_local) // 2, bounds.max_local}:
                    grad, whole = application.times.passes(placement, local)
                    assert 0 < grad <= whole < 100
