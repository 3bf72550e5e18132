"""Where a size was measured, the measurement counts; the fit tells the rest."""

import numpy as np
import pytest

from schedulearn.metrics.model.goodput import BatchBounds, Goodput, goodput_table
from schedulearn.metrics.model.residuals import residuals_of
from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, fit
from schedulearn.scheduler.sim.application import measured_applications, packed

SIZES = [1, 2, 4, 8, 16]


def times_of(rows: list[tuple[float, ...]]) -> StepTimes:
    return StepTimes(*np.array(rows, dtype=float).T)


def measured(name: str, sizes: list[int], batches: int = 3) -> StepTimes:
    application = measured_applications()[name]
    assert application.times is not None
    most = application.bounds.max_local
    assert most is not None
    rows = []
    for gpus in sizes:
        placement = packed(gpus, 4)
        for local in np.linspace(max(application.bounds.min_local, most / 4), most, batches).astype(int):
            grad, whole = application.times.passes(placement, int(local))
            rows.append((len(placement), gpus, local, grad, whole))
    return times_of(rows)


@pytest.mark.parametrize("name", ["bert", "cifar10", "deepspeech2", "imagenet", "yolov3"])
def test_throughput_at_measured_sizes_is_the_measured_one(name: str) -> None:
    times = measured(name, SIZES, batches=1)
    model = fit(times)
    corrected = residuals_of(model, times).factor(times.num_nodes.astype(int), times.num_replicas.astype(int))
    predicted = model.iter_time(times.num_nodes, times.num_replicas, times.atomic_batch)
    assert predicted / corrected == pytest.approx(times.iter_time, rel=1e-9)


def test_speedups_over_one_gpu_are_nearer_the_truth_than_those_of_the_fit_alone() -> None:
    alone, corrected = [], []
    for name in ("bert", "cifar10", "deepspeech2", "imagenet", "yolov3"):
        known, asked = measured(name, SIZES), measured(name, [*SIZES, 12], batches=2)
        model = fit(known)
        nodes, gpus = asked.num_nodes.astype(int), asked.num_replicas.astype(int)
        plain = model.iter_time(nodes, gpus, asked.atomic_batch)
        for errors, predicted in (
            (alone, plain),
            (corrected, plain / residuals_of(model, known).factor(nodes, gpus)),
        ):
            off = np.log(predicted / asked.iter_time)
            errors += np.abs(off[2:] - np.tile(off[:2], len(off) // 2 - 1)).tolist()  # against one GPU, batch by batch
    assert np.mean(corrected) < 0.75 * np.mean(alone)


def test_a_perfect_fit_is_left_as_it_is() -> None:
    model = StepTimeModel(0.02, 0.001, 0.01, 0.002, 0.05, 0.003, 1.5)
    shapes = [(-(-k // 4), k, m) for k in SIZES for m in (16, 64)]
    rows = [(*shape, float(model.grad_time(shape[2])), float(model.iter_time(*shape))) for shape in shapes]
    nodes, gpus = np.array([1, 1, 2, 3]), np.array([1, 3, 8, 64])
    assert residuals_of(model, times_of(rows)).factor(nodes, gpus) == pytest.approx(np.ones(4))


def test_sizes_of_one_host_tell_nothing_of_several_hosts() -> None:
    model = StepTimeModel(0.02, 0.001, 0.01, 0.002, 0.05, 0.003, 1.0)
    rows = [(1, k, 16, float(model.grad_time(16)), 1.2 * float(model.iter_time(1, k, 16))) for k in (1, 2, 4)]
    found = residuals_of(model, times_of(rows))
    assert found.factor(np.array([1, 1, 1]), np.array([1, 3, 4])) == pytest.approx([1 / 1.2] * 3)
    assert found.factor(np.array([2]), np.array([8])) == pytest.approx([1.0])


def test_of_as_many_gpus_those_on_fewest_hosts_count() -> None:
    model = StepTimeModel(0.02, 0.001, 0.01, 0.002, 0.05, 0.003, 1.0)
    grad, whole = float(model.grad_time(16)), float(model.iter_time(2, 4, 16))
    found = residuals_of(model, times_of([(2, 4, 16, grad, 1.1 * whole), (4, 4, 16, grad, 1.4 * whole)]))
    assert found.factor(np.array([2, 4]), np.array([4, 4])) == pytest.approx([1 / 1.1] * 2)


def test_a_measurement_that_lies_far_from_all_others_changes_nothing() -> None:
    model = StepTimeModel(0.02, 0.001, 0.01, 0.002, 0.05, 0.003, 1.0)
    rows = [(1, k, m, float(model.grad_time(m)), float(model.iter_time(1, k, m))) for k in (1, 2, 4) for m in (8, 16)]
    rows.append((1, 4, 32, float(model.grad_time(32)), 20 * float(model.iter_time(1, 4, 32))))
    assert residuals_of(model, times_of(rows)).factor(np.array([1]), np.array([4])) == pytest.approx([1.0])


def test_a_table_of_many_jobs_says_what_each_job_says_of_itself() -> None:
    bounds, types = BatchBounds(64, 1024, 8, 128), ["a", "b", "c"]
    times = {kind: measured(name, SIZES) for kind, name in (("a", "cifar10"), ("b", "yolov3"))}
    models = {kind: fit(seen) for kind, seen in times.items()}
    residuals = {kind: residuals_of(models[kind], seen) for kind, seen in times.items()}
    jobs = [
        Goodput(models, 300.0, bounds, {"a": 1.0, "c": 2.0}, residuals=residuals),
        Goodput({"a": models["a"]}, 20.0, bounds),
    ]
    gpus = np.array([1, 2, 3, 4, 8, 16] * 3)
    nodes, kinds = -(-gpus // 4), [kind for kind in types for _ in range(6)]
    table = goodput_table(jobs, nodes, gpus, kinds)
    for row, job in zip(table, jobs, strict=True):
        for at, kind in enumerate(kinds):
            best = job.best(nodes[at], gpus[at], kind)
            assert row[at] == pytest.approx(float(best.goodput), rel=1e-12)
            here = job.at(nodes[at], gpus[at], best.batch, kind)
            assert float(here) == pytest.approx(row[at], rel=1e-9)


def test_residuals_change_no_choice_of_a_batch() -> None:
    times = measured("imagenet", SIZES)
    model = fit(times)
    bounds = measured_applications()["imagenet"].bounds
    plain = Goodput({"t4": model}, 5000.0, bounds)
    corrected = Goodput({"t4": model}, 5000.0, bounds, residuals={"t4": residuals_of(model, times)})
    gpus = np.arange(1, 17)
    one, other = plain.best(-(-gpus // 4), gpus), corrected.best(-(-gpus // 4), gpus)
    assert (one.atomic_batch == other.atomic_batch).all()
    assert (one.accumulation == other.accumulation).all()
    assert not np.allclose(one.goodput, other.goodput)
