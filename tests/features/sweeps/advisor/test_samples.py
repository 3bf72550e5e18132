"""How busy the hosts of a job were while it ran, by hand."""

import pytest

from schedulearn.features.sweeps.models.samples import Configuration, Stay, jobs_beside


def test_jobs_beside_are_averaged_over_the_time_of_a_job() -> None:
    stays = [Stay("a", "h1", 0, 10), Stay("b", "h1", 5, 10), Stay("c", "h1", 9, 20), Stay("d", "h2", 0, 20)]
    found = jobs_beside(stays)
    assert found["a"] == pytest.approx((5 + 1) / 10)
    assert found["b"] == pytest.approx((5 + 1) / 5)
    assert found["c"] == pytest.approx((1 + 1) / 11)
    assert found["d"] == 0.0


def test_containers_of_one_job_do_not_count_as_others() -> None:
    found = jobs_beside([Stay("a", "h1", 0, 10), Stay("a", "h1", 0, 10), Stay("a", "h2", 0, 10), Stay("b", "h2", 0, 5)])
    assert found == {"a": pytest.approx(5 / 20), "b": pytest.approx(1.0)}


def test_a_job_that_took_no_time_has_nobody_beside() -> None:
    assert jobs_beside([Stay("a", "h", 3, 3), Stay("b", "h", 0, 9)])["a"] == 0.0
    assert jobs_beside([]) == {}


def test_processes_are_workers_times_jobs() -> None:
    assert Configuration("f", "gpu", 4, 32, 1, 100, beside=1.5).processes == 10
