"""Jobs of one application share what they measured in Pollux's simulator too, where that is asked for."""

from types import SimpleNamespace
from typing import Any

import pytest
from bench.policies.artifact import _knowledge, remembering


class Bare:
    """What a job of the artifact sets when it is made."""

    def __init__(self, name: str, application: Any) -> None:
        self.name, self.application = name, application
        self.profile: Any = {}
        self.perf_params: Any = None
        self.grad_params: Any = None
        self.progress, self.epoch, self.completion_time = 0.0, 0, None


APPLICATION = SimpleNamespace(
    name="cifar10", init_batch_size=128, max_batch_size=4096, min_local_bsz=32, max_local_bsz=1024
)


def jobs_of_one_application(count: int, *, shared: bool = True) -> list[Any]:
    made = remembering(Bare, shared=shared)
    return [made(f"cifar10-{n}", APPLICATION) for n in range(count)]


def test_what_one_job_measured_the_next_one_begins_with() -> None:
    first, second = jobs_of_one_application(2)
    assert first.perf_params is None
    first.update_params(1, 1, 128, 0.2, 0.0, 1e-4, 2e-4)
    first.update_params(1, 2, 128, 0.25, 0.05, 1e-4, 2e-4)
    assert second.max_profiled_replicas == first.max_profiled_replicas == 2
    assert second.perf_params == first.perf_params
    alpha, beta = first.perf_params[:2]
    assert alpha + 128 * beta == pytest.approx(0.2, rel=0.01)


def test_jobs_that_share_nothing_begin_with_nothing() -> None:
    first, second = jobs_of_one_application(2, shared=False)
    first.update_params(1, 1, 128, 0.2, 0.0, 1e-4, 2e-4)
    assert first.perf_params is not None
    assert second.perf_params is second.grad_params is _knowledge(second, [first, second]) is None
    first.completion_time, first.progress = 5000, 1000.0
    second.update_params(1, 1, 128, 0.2, 0.0, 1e-4, 2e-4)
    known = _knowledge(second, [first, second])
    assert known is not None
    assert known.remaining is None


def test_a_job_begins_with_the_noise_that_the_first_began_with_and_then_has_its_own() -> None:
    first, second = jobs_of_one_application(2)
    first.update_params(1, 1, 128, 0.2, 0.0, 3.0, 4.0)
    first.epoch = 1
    first.update_params(1, 1, 128, 0.2, 0.0, 5.0, 6.0)
    assert second.grad_params == (3.0, 4.0)
    second.update_params(1, 1, 128, 0.2, 0.0, 7.0, 8.0)
    assert (first.grad_params, second.grad_params) == ((5.0, 6.0), (7.0, 8.0))


def test_a_job_measures_a_shape_once_and_a_family_its_newest() -> None:
    """As in our own simulator: batches that are nearly the same tell the same."""
    first, second = jobs_of_one_application(2)
    for job, local, seconds in ((first, 124, 0.2), (first, 128, 0.3), (second, 126, 0.4)):
        job.update_params(1, 1, local, seconds, 0.0, 1.0, 1.0)
        [measured] = job.family.memory.shapes.values()
        assert measured.whole == (0.4 if job is second else 0.2)


def test_a_family_forgets_its_oldest_shapes() -> None:
    [job] = jobs_of_one_application(1)
    memory = job.family.memory
    for replicas in range(1, memory.limit + 6):
        job.update_params(1, replicas, 128, 0.2, 0.0, 1.0, 1.0)
    assert [gpus for _, _, gpus, _ in memory.shapes] == [*range(6, memory.limit + 6)]


def test_a_length_is_known_once_a_job_of_the_family_has_ended() -> None:
    ended, running = jobs_of_one_application(2)
    jobs = [ended, running]
    assert _knowledge(running, jobs) is None
    ended.update_params(1, 1, 128, 0.2, 0.0, 1.0, 1.0)
    running.update_params(1, 1, 128, 0.2, 0.0, 1.0, 1.0)
    early = _knowledge(running, jobs)
    assert early is not None
    assert early.remaining is None
    ended.progress, ended.completion_time, running.progress = 1000.0, 5000, 400.0
    late = _knowledge(running, jobs)
    assert late is not None
    assert late.remaining == pytest.approx(600 * 128 / float(late.goodput(1, 1)))
