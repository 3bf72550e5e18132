import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedulearn.metrics.model.step_time import StepTimeModel, StepTimes, _bounds, _Loss, fit, rms_relative_error

APPLICATIONS = json.loads((Path(__file__).with_name("profiles.json")).read_text())
models = st.builds(
    StepTimeModel,
    *[st.floats(1e-4, 1.0) for _ in range(6)],
    gamma=st.floats(1.0, 10.0),
)


def observe(model: StepTimeModel, rows: list[tuple[int, int, int]], noise: float = 0.0, seed: int = 0) -> StepTimes:
    nodes, replicas, batch = np.array(rows, dtype=float).T
    random = np.random.default_rng(seed)

    def measured(times: np.ndarray) -> np.ndarray:
        return times * np.exp(noise * random.standard_normal(len(times)))

    return StepTimes(
        nodes, replicas, batch, measured(model.grad_time(batch)), measured(model.iter_time(nodes, replicas, batch))
    )


def grid(batches: list[int], most: int = 16) -> list[tuple[int, int, int]]:
    return [(-(-k // 4), k, m) for k in (1, 2, 3, 4, 8, 12, 16) if k <= most for m in batches]


@given(model=models)
def test_the_model_is_the_papers_formula(model: StepTimeModel) -> None:
    grad = model.alpha_grad + model.beta_grad * 32
    assert float(model.step_time(1, 1, 32)) == pytest.approx(grad)
    sync = model.alpha_local + model.beta_local * 2
    both = (grad**model.gamma + sync**model.gamma) ** (1 / model.gamma)
    assert float(model.iter_time(1, 4, 32)) == pytest.approx(both)
    assert float(model.step_time(1, 4, 32, 3)) == pytest.approx(3 * grad + both)


def test_everything_is_vectorised() -> None:
    model = StepTimeModel(**APPLICATIONS["bert"]["throughput"])
    table = model.step_time(np.array([[1], [2]]), np.array([[2], [8]]), np.array([4, 8, 12]))
    assert table.shape == (2, 3)
    assert float(table[1, 2]) == pytest.approx(float(model.step_time(2, 8, 12)))


@pytest.mark.parametrize("field", ["num_nodes", "num_replicas", "atomic_batch", "grad_time", "iter_time"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0])
def test_what_cannot_be_a_measurement_is_refused_by_name(field: str, value: float) -> None:
    arrays = {"num_nodes": [1.0], "num_replicas": [1.0], "atomic_batch": [8.0], "grad_time": [0.1], "iter_time": [0.1]}
    arrays[field] = [value]
    with pytest.raises(ValueError, match=field):
        StepTimes(**{name: np.array(a) for name, a in arrays.items()})


def test_more_nodes_than_replicas_are_refused() -> None:
    with pytest.raises(ValueError, match="num_nodes"):
        StepTimes(*[np.array([x]) for x in (2.0, 1.0, 8.0, 0.1, 0.1)])


@settings(max_examples=50)
@given(model=models, seed=st.integers(0, 99))
def test_the_gradient_of_the_loss_is_its_slope(model: StepTimeModel, seed: int) -> None:
    seen = observe(model, grid([8, 32, 128]), noise=0.2, seed=seed)
    weights = np.full(len(seen), 1 / len(seen))
    x, _, _ = _bounds(seen, weights > 0)
    x = x * np.exp(0.3 * np.random.default_rng(seed).standard_normal(7))
    x[6] = max(1.01, x[6])
    loss_of = _Loss(seen, weights)
    _, gradient, _ = loss_of(x)
    for index in range(7):
        step = np.zeros(7)
        step[index] = 1e-6 * x[index]
        slope = (loss_of(x + step)[0] - loss_of(x - step)[0]) / (2 * step[index])
        assert gradient[index] == pytest.approx(slope, rel=1e-3, abs=1e-4 / x[index])


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
def test_a_fit_does_not_hang_on_the_last_digit(name: str) -> None:
    """Few sizes leave flat valleys; a search that stops anywhere in them makes decisions a matter of rounding."""
    app = APPLICATIONS[name]
    truth = StepTimeModel(**app["throughput"])
    rows = grid(sorted(set(app["local_batch_size"])))
    for count in range(2, len(rows)):
        one, other = (fit(observe(truth, rows[:count], noise, seed=1)) for noise in (0.0, 1e-12))
        times = [float(m.iter_time(4, 16, 64)) for m in (one, other)]
        assert times[0] == pytest.approx(times[1], rel=1e-6), count


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
def test_the_fit_finds_the_published_profiles_within_15_per_cent(name: str) -> None:
    """Measured with the scatter of the paper's own profiles, 5 per cent here, on sizes that a job passes through."""
    app = APPLICATIONS[name]
    truth = StepTimeModel(**app["throughput"])
    low, high = app["local_batch_size"]
    batches = sorted({low, int((low * high) ** 0.5), high})
    model = fit(observe(truth, grid(batches), noise=0.05))
    clean = observe(truth, grid(list(np.unique(np.geomspace(low, high, 8).astype(int)))))
    assert rms_relative_error(model, clean) < 0.15


def test_a_fit_of_a_hundred_observations_takes_20_ms() -> None:
    """A bound that is five times the budget of bench/, so that a slow machine does not fail it."""
    truth = StepTimeModel(**APPLICATIONS["cifar10"]["throughput"])
    seen = observe(truth, (grid([32, 64, 128, 512]) * 4)[:100], noise=0.05)
    fit(seen)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        fit(seen)
        times.append(time.perf_counter() - began)
    assert min(times) < 0.1


@pytest.mark.parametrize(
    ("seconds", "fixed"),
    [(0.2, 0.06), (0.04, 0.012), (0.03, 0.01), (0.02, 0.01), (0.007, 0.0035)],
)
def test_after_one_batch_size_a_part_of_the_time_is_taken_for_fixed(seconds: float, fixed: float) -> None:
    """A pass of a few milliseconds is mostly launching kernels, whatever its batch."""
    truth = StepTimeModel(seconds, 0.0, 0.05, 0.01, 0.2, 0.02, 2.0)
    model = fit(observe(truth, [(1, 1, 10)] * 5))
    assert (model.alpha_grad, model.beta_grad * 10) == pytest.approx((fixed, seconds - fixed), rel=1e-6)


def test_batches_close_to_each_other_tell_no_more_than_one() -> None:
    """Each is measured somewhat wrong: a slope through such points would say that small batches cost as much as large
    ones, and no job would ever try a small one."""
    truth = StepTimeModel(0.1, 0.01, 0.05, 0.01, 0.2, 0.02, 2.0)
    seen = observe(truth, [(1, 1, 200), (1, 2, 198), (1, 4, 195), (2, 8, 192)])
    wrong = StepTimes(*vars(seen).values())
    wrong.grad_time[:] = [2.0, 2.02, 2.04, 2.06]
    model = fit(wrong)
    assert float(model.grad_time(100)) == pytest.approx(0.65 * float(model.grad_time(200)), rel=0.02)


def test_what_was_never_seen_within_a_host_counts_as_almost_free() -> None:
    """Optimism under ignorance: a job that ran on one GPU only is tried on more."""
    truth = StepTimeModel(0.1, 0.01, 0.5, 0.1, 2.0, 0.2, 2.0)
    model = fit(observe(truth, [(1, 1, 10), (1, 1, 20), (1, 1, 40)]))
    assert float(model.step_time(1, 4, 10)) == pytest.approx(float(model.step_time(1, 1, 10)), rel=1e-3)
    local = fit(observe(truth, [(1, k, m) for k in (1, 2) for m in (10, 20)]))
    assert float(local.sync_time(1, 4)) == pytest.approx(float(local.sync_time(1, 2)), rel=1e-3)
    assert float(local.sync_time(2, 4)) >= 1.1 * float(local.sync_time(1, 2))


def test_a_network_that_was_never_seen_is_slow_but_not_too_slow_to_be_tried() -> None:
    """As of the applications that Pollux's authors measured: twice the GPUs over two hosts, a third more speed."""
    truth = StepTimeModel(0.1, 0.01, 0.01, 0.0, 2.0, 0.0, 1.0)
    model = fit(observe(truth, [(1, k, 20) for k in (1, 2, 4)]))
    assert float(model.sync_time(2, 8)) == pytest.approx(0.5 * 0.3, rel=0.02)
    gains = 2 * model.step_time([1, 2, 4], [4, 8, 16], 20) / model.step_time([2, 4, 8], [8, 16, 32], 20)
    assert gains == pytest.approx([1.38, 2.0, 2.0], rel=0.02)
    seen = fit(observe(truth, [(1, 1, 20), (1, 4, 20), (2, 8, 20)]))
    assert float(seen.sync_time(2, 8)) == pytest.approx(2.0, rel=0.02)  # a measurement counts, and nothing else


def test_a_few_wild_measurements_do_not_bend_the_fit() -> None:
    truth = StepTimeModel(**APPLICATIONS["imagenet"]["throughput"])
    seen = observe(truth, grid([20, 60, 200]) * 3, noise=0.03)
    wild = seen.iter_time.copy()
    wild[::15] *= 20  # somebody else's job, a page fault, a stopped clock
    model = fit(StepTimes(seen.num_nodes, seen.num_replicas, seen.atomic_batch, seen.grad_time, wild))
    assert rms_relative_error(model, observe(truth, grid([20, 60, 200]))) < 0.15


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.integers(1, 16), st.integers(1, 500), st.floats(1e-3, 100.0), st.floats(1e-3, 100.0)),
        min_size=1, max_size=20,
    )
)  # fmt: skip
def test_whatever_was_measured_gives_a_model(rows: list[tuple[int, int, float, float]]) -> None:
    k, batch, grad, iteration = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    model = fit(StepTimes(np.ceil(k / 4), k, batch, grad, iteration))
    assert np.all(np.isfinite(model.step_time(np.ceil(k / 4), k, batch)))
