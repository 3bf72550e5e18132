"""What the simulator computes at once, or keeps, is to the last bit what it would compute one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from schedulearn.metrics.model.goodput import Goodput, goodput_table
from schedulearn.scheduler.policies.registry import make_policy
from schedulearn.scheduler.sim.application import Application, Floats, measured_applications, packed
from schedulearn.scheduler.sim.arguments import equal_hosts, parse_trace
from schedulearn.scheduler.sim.conditions import POLLUX, Conditions
from schedulearn.scheduler.sim.jobs import training
from schedulearn.scheduler.sim.jobs.batch_choice import batch_choice
from schedulearn.scheduler.sim.run import JobResult
from schedulearn.scheduler.sim.simulator import simulate

APPLICATIONS = list(measured_applications().values())


def believed(application: Application, phi: float) -> Goodput:
    assert application.times is not None
    return Goodput({"gpu": application.times.fitted()}, phi, application.bounds)


@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda app: app.name)
def test_the_rates_of_all_parts_are_those_of_each(application: Application) -> None:
    bounds = application.bounds
    for gpus, share in product((1, 3, 8, 24), (0.0, 0.3, 1.0, 1.5)):
        batch = round(bounds.init_batch + share * (bounds.max_batch - bounds.init_batch))
        rates = application.rates(packed(gpus, 4), batch)
        samples, seconds = application.step(packed(gpus, 4), batch, 1.0)
        each = [application.phi(part, samples) for part in range(application.last_part + 1)]
        assert rates.tolist() == [samples / (phi + samples) * (phi / bounds.init_batch + 1) / seconds for phi in each]


def test_noise_between_batches_that_were_measured_is_linear() -> None:
    application = measured_applications()["cifar10"]
    table = application.noise
    sizes = table._batches  # type: ignore[attr-defined]
    for batch in (1.0, float(sizes[0]), 200.0, float(sizes[2]), 3000.0, float(sizes[-1]), 1e6):
        sqr = [float(np.interp(batch, sizes, column)) for column in table._sqr.T]  # type: ignore[attr-defined]
        var = [float(np.interp(batch, sizes, column)) for column in table._var.T]  # type: ignore[attr-defined]
        expected = [application.bounds.init_batch * v / s for s, v in zip(sqr, var, strict=True)]
        assert table.phis(batch).tolist() == expected


@pytest.mark.parametrize("least", [0.0, 0.9], ids=["any", "efficient"])
@pytest.mark.parametrize("application", APPLICATIONS, ids=lambda app: app.name)
def test_batches_for_many_noise_scales_are_those_for_each(application: Application, least: float) -> None:
    phis = application.noise.phis(application.bounds.init_batch)
    function = replace(believed(application, 1.0), min_efficiency=least)
    for gpus, batch in product((1, 2, 6, 16), (0, application.bounds.init_batch)):
        at_once = function.keep_or_change_at(phis, -(-gpus // 4), gpus, batch)
        each = [function.keep_or_change_at(phis[[part]], -(-gpus // 4), gpus, batch)[0] for part in range(len(phis))]
        assert at_once == each


def test_a_job_in_a_table_does_not_hang_on_the_others_nor_on_being_asked_before() -> None:
    gpus = np.array([1, 2, 4, 8, 12, 16])
    nodes = -(-gpus // 4)

    def functions() -> list[Goodput]:
        return [believed(app, phi) for app in APPLICATIONS for phi in (3.0, 900.0)]

    together = functions()
    first, again = goodput_table(together, nodes, gpus), goodput_table(together, nodes, gpus)
    alone = [goodput_table([function], nodes, gpus)[0] for function in functions()]
    assert first.tolist() == again.tolist() == [row.tolist() for row in alone]
    for other in range(10):  # however many tables are asked for, few are kept
        goodput_table(together, nodes, gpus + other)
    assert goodput_table(together, nodes, gpus).tolist() == first.tolist()
    assert all(len(function._rows) <= 4 for function in together)


@pytest.mark.parametrize("conditions", [Conditions(), POLLUX], ids=["service", "pollux"])
def test_a_trace_is_the_same_whether_batches_are_looked_at_ahead(
    conditions: Conditions, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = parse_trace("poisson:12@60", 3)

    def play() -> Sequence[JobResult]:
        batch_choice.cache_clear()
        return simulate(make_policy("goodput", "speed"), jobs, equal_hosts(4, 4), conditions).outcomes

    def nothing(self: training.Training) -> Floats:
        return np.empty(0)

    ahead, warm = play(), simulate(make_policy("goodput", "speed"), jobs, equal_hosts(4, 4), conditions).outcomes
    monkeypatch.setattr(training.Training, "_noise_ahead", nothing)
    assert ahead == play() == warm
