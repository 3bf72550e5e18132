import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedulearn.metrics.model.goodput import BatchBounds, Goodput
from schedulearn.metrics.model.noise_scale import SURE_SAMPLES, NoiseScale, efficiency, learning_rate_factor
from schedulearn.metrics.model.step_time import StepTimeModel

APPLICATIONS = json.loads((Path(__file__).with_name("profiles.json")).read_text())


def goodput(name: str, fraction: float = 0.5, **fields: object) -> Goodput:
    app = APPLICATIONS[name]
    phi = np.interp(fraction, *np.array(app["noise_scale"]).T)
    high = app["local_batch_size"][1]
    bounds = BatchBounds(app["init_batch_size"], app["max_batch_size"], min_local=1, max_local=high)
    return Goodput({"t4": StepTimeModel(**app["throughput"])}, float(phi), bounds, **fields)  # type: ignore[arg-type]


def speedups(function: Goodput, most: int, gpus_per_node: int) -> dict[int, float]:
    """k -> goodput(k) / goodput(1) for 1 to `most` GPUs packed onto hosts of `gpus_per_node`."""
    k = np.arange(1, most + 1)
    values = function(-(-k // gpus_per_node), k)
    return dict(zip(k.tolist(), (values / values[0]).tolist(), strict=True))


def exhaustive(function: Goodput, nodes: int, k: int) -> float:
    """Every batch that is allowed."""
    bounds = function.bounds
    batches = np.arange(max(bounds.init_batch, k * bounds.min_local), bounds.max_batch + 1)
    return float(function.at(nodes, k, batches).max(initial=0.0))


@pytest.mark.parametrize("name", sorted(APPLICATIONS))
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.9])
def test_the_batch_choice_is_within_one_per_cent_of_exhaustive_search(name: str, fraction: float) -> None:
    function = goodput(name, fraction)
    for nodes, k in ((1, 1), (1, 2), (1, 4), (2, 8), (4, 16), (8, 32)):
        found, best = float(function(nodes, k)), exhaustive(function, nodes, k)
        assert found >= 0.99 * best, (nodes, k, function.best(nodes, k))


@given(
    name=st.sampled_from(sorted(APPLICATIONS)), fraction=st.floats(0, 1), k=st.integers(1, 64),
    init=st.integers(1, 500), room=st.integers(0, 5000), local=st.integers(1, 300),
)  # fmt: skip
def test_a_chosen_batch_keeps_within_its_bounds(
    name: str, fraction: float, k: int, init: int, room: int, local: int
) -> None:
    base = goodput(name, fraction)
    bounds = BatchBounds(init, init + room, max_local=local)
    function = Goodput(base.models, base.phi, bounds)
    choice = function.best(-(-k // 4), k)
    batch, m, a = int(choice.batch), int(choice.atomic_batch), int(choice.accumulation)
    if float(choice.goodput) == 0:
        assert (batch, m) == (0, 0)
        return
    assert 1 <= m <= local
    assert init <= batch <= bounds.max_batch
    assert bounds.split(batch, k) == (batch, m, a), "the workers make it in another way"
    assert float(choice.goodput) == pytest.approx(float(function.at(-(-k // 4), k, batch)))


@pytest.mark.parametrize(("batch", "gpus", "largest_share"), [(8, 5, 2), (16, 6, 3), (32, 7, 5)])
def test_gpus_that_do_not_divide_the_batch_all_wait_for_the_largest_share(
    batch: int, gpus: int, largest_share: int
) -> None:
    """With free synchronisation and one batch, k GPUs are T(batch) / T(largest share) times as fast as one: 3.23, 4.53
    and 5.75 here. A smaller batch, worth more a sample, is not what the workers train."""
    model = StepTimeModel(0.0069, 0.01, 0.0, 0.0, 0.0, 0.0, 1.0)
    expected = (0.69 + batch) / (0.69 + largest_share)
    for phi in (0.0, 100.0):
        function = Goodput({"gpu": model}, phi, BatchBounds(batch, batch))
        assert speedups(function, gpus, 8)[gpus] == pytest.approx(expected)
        assert int(function.best(1, gpus).batch) == batch


def test_a_gpu_that_shortens_no_share_gains_nothing() -> None:
    table = speedups(Goodput({"gpu": StepTimeModel(0.01, 0.01, 0, 0, 0, 0, 1.0)}, 0.0, BatchBounds(8, 8)), 8, 8)
    assert [table[k] for k in (5, 6, 7)] == [table[4]] * 3
    assert table[8] > table[4]


@given(
    init=st.integers(1, 300), room=st.integers(0, 300), k=st.integers(1, 40), phi=st.floats(0, 1e4),
    local=st.integers(1, 40), least=st.sampled_from([0.0, 0.9]),
)  # fmt: skip
def test_no_batch_is_worth_more_a_sample_than_the_first(
    init: int, room: int, k: int, phi: float, local: int, least: float
) -> None:
    base = goodput("cifar10")
    choice = Goodput(base.models, phi, BatchBounds(init, init + room, max_local=local), min_efficiency=least).best(1, k)
    assert float(choice.goodput) <= float(choice.throughput) * (1 + 1e-12)


def test_goodput_is_vectorised_and_zero_without_gpus() -> None:
    function = goodput("bert")
    values = function(np.array([[1, 1], [1, 2]]), np.array([[0, 1], [4, 8]]))
    assert values.shape == (2, 2)
    assert values[0, 0] == 0
    assert values[1, 1] == pytest.approx(float(function(2, 8)))


def test_the_batch_is_kept_unless_another_is_clearly_better() -> None:
    function = goodput("cifar10")
    best = int(function.best(1, 4).batch)
    phi = np.array([function.phi])
    assert function.keep_or_change_at(phi, 1, 4, best - 4) == [best - 4]
    assert function.keep_or_change_at(phi, 1, 4, 128) == [best]
    assert function.keep_or_change_at(phi, 1, 4, 0) == [best]


def test_a_type_that_was_not_profiled_is_scaled_from_one_that_was() -> None:
    base = goodput("imagenet")
    scaled = goodput("imagenet", type_speed={"t4": 100.0, "a100": 400.0})
    assert float(scaled(1, 2, "a100")) == pytest.approx(4 * float(base(1, 2, "t4")))
    assert float(scaled(1, 2, "unheard-of")) == pytest.approx(float(base(1, 2)))


def test_speed_leaves_efficiency_out() -> None:
    fast = goodput("cifar10", 0.02, use_efficiency=False).best(4, 16)
    good = goodput("cifar10", 0.02).best(4, 16)
    assert float(fast.throughput) > float(good.throughput)
    assert float(fast.goodput) == pytest.approx(float(fast.throughput))


def test_speedup_starts_at_one_and_stays_below_the_number_of_gpus() -> None:
    table = speedups(goodput("bert"), 16, 4)
    assert table[1] == 1.0
    assert all(table[k] <= k * 1.001 for k in table)


def test_a_least_efficiency_bounds_the_batch_but_not_what_the_gpus_need() -> None:
    base = goodput("cifar10")
    bounds = BatchBounds(64, 1024, min_local=8)
    careful = Goodput(base.models, 500.0, bounds, min_efficiency=0.9)
    k = np.arange(1, 129)
    choice = careful.best(-(-k // 4), k)
    total = choice.batch
    assert (choice.goodput > 0).all()
    assert (total <= np.maximum(126, 8 * k)).all()
    assert total[1] > 100
    assert Goodput(base.models, 500.0, bounds)(1, 4) > careful(1, 4)


def test_efficiency_is_one_at_the_initial_batch_and_falls() -> None:
    values = efficiency(1000.0, 128, np.array([128, 256, 4096]))
    assert values[0] == 1.0
    assert np.all(np.diff(values) < 0)
    for wrong in (float("nan"), -1.0):
        with pytest.raises(ValueError, match="noise scale"):
            efficiency(wrong, 128, 128)


@pytest.mark.parametrize("replicas", [2, 4, 16])
def test_the_noise_scale_of_known_gradients_is_found(replicas: int) -> None:
    """Gradients of M0 / K samples drawn around a known mean with a known covariance."""
    random = np.random.default_rng(0)
    init, size, true, sigma = 64, 200, 0.1, 0.5
    mean = np.full(size, true)
    noise = NoiseScale(init)
    for _ in range(4000):
        each = mean + sigma * np.sqrt(replicas) * random.standard_normal((replicas, size))
        noise.update(float((each**2).sum(axis=1).mean()), float((each.mean(axis=0) ** 2).sum()), replicas, init)
    assert noise.sqr == pytest.approx(size * true**2, rel=0.1)
    assert noise.var == pytest.approx(size * sigma**2, rel=0.05)
    assert noise.phi == pytest.approx(init * sigma**2 / true**2, rel=0.1)


def test_a_single_replica_is_measured_from_successive_gradients() -> None:
    random = np.random.default_rng(0)
    init, size, true, sigma = 64, 200, 0.1, 0.5
    noise = NoiseScale(init)
    previous = true + sigma * random.standard_normal(size)
    for _ in range(4000):
        this = true + sigma * random.standard_normal(size)
        both = (previous + this) / 2
        noise.update_pair(float(previous @ previous), float(this @ this), float(both @ both), init)
        previous = this
    assert noise.phi == pytest.approx(init * sigma**2 / true**2, rel=0.15)


def after_a_tenfold_fall(every: int, pairs: bool) -> float:
    """The noise scale after 10,000 steps of 64 samples over which |G|^2 falls tenfold to 1; var is 10. Expectations
    stand for measurements. True at the end: 640."""
    noise, var = NoiseScale(64), 10.0
    for step in range(0, 10_000, every):
        sqr = 10 ** (1 - step / 10_000)
        if pairs:
            noise.update_pair(sqr + var, sqr + var, sqr + var / 2, 64, every)
        else:
            noise.update(sqr + 4 * var, sqr + var, 4, 64, every)
    assert noise.phi is not None
    return noise.phi


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("every", [1, 7, 30])
def test_the_average_is_as_old_however_few_steps_are_measured(every: int, pairs: bool) -> None:
    """By steps, it lags by what a window of 1,000 steps has to: |G|^2 is 1 / (1 - ln 10 / 10) of the true one. With
    one measurement in 30 steps, and 0.999 a measurement, it was 174."""
    lag = 1 / (1 - np.log(10) / 10)
    assert after_a_tenfold_fall(every, pairs) == pytest.approx(640 / lag, rel=0.02)


def test_large_batches_that_are_seldom_measured_keep_enough_measurements_to_be_sure_of() -> None:
    noise = NoiseScale(64)
    for _ in range(300):
        noise.update(1.0 + 4.0, 2.0, 4, 64 * 16, 30)
    assert noise.samples > 1.9 * SURE_SAMPLES


def test_steps_that_are_not_finite_change_nothing() -> None:
    noise = NoiseScale(8)
    noise.update(2.0, 1.5, 4, 8)
    before = (noise.sqr, noise.var)
    assert not noise.update(float("nan"), 1.0, 4, 8)
    assert not noise.update(float("inf"), 1.0, 4, 8)
    assert (noise.sqr, noise.var) == before
    with pytest.raises(ValueError, match="two gradients"):
        noise.update(1.0, 1.0, 1, 8)


def test_nothing_is_known_before_the_first_step_or_when_the_gradient_drowns() -> None:
    noise = NoiseScale(8)
    assert noise.phi is None
    noise.update(4.0, 0.5, 2, 8)  # sqr = 2 * 0.5 - 4 < 0
    assert noise.phi is None


def measured(seed: int, count: int, *, true: float, sigma: float, size: int = 200, replicas: int = 4) -> NoiseScale:
    """Of gradients of 64 samples: around `true` in each of `size` directions, with standard deviation `sigma`."""
    random, noise = np.random.default_rng(seed), NoiseScale(64)
    for _ in range(count):
        each = true + sigma * np.sqrt(replicas) * random.standard_normal((replicas, size))
        noise.update(float((each**2).sum(axis=1).mean()), float((each.mean(axis=0) ** 2).sum()), replicas, 64)
    return noise


@pytest.mark.parametrize(("count", "share"), [(20, 0.3), (100, 0.6), (500, 0.8)])
def test_what_is_taken_for_sure_of_the_noise_scale_is_hardly_ever_too_much(count: int, share: float) -> None:
    true, sigma = 0.1, 0.4
    phi = 64 * sigma**2 / true**2
    found = [measured(seed, count, true=true, sigma=sigma) for seed in range(60)]
    assert sum(noise.sure_phi <= phi for noise in found) >= 56
    assert np.median([noise.sure_phi for noise in found]) > share * phi
    assert all(noise.is_sure for noise in found if count >= 100)


def test_nothing_is_sure_of_a_gradient_that_drowns() -> None:
    """Near convergence: a noise scale of a million times the batch is an accident."""
    found = [measured(seed, 400, true=0.0, sigma=1.0) for seed in range(60)]
    assert sum(noise.is_sure for noise in found) <= 4
    assert all(not noise.is_sure for seed in range(60) for noise in [measured(seed, 15, true=0.1, sigma=0.1)])
    assert any((noise.phi or 0) > 64 * 300 for noise in found)
    assert max(noise.sure_phi for noise in found) < 64 * 300


def test_the_learning_rate_hardly_follows_while_little_is_known() -> None:
    noise = NoiseScale(64)
    for rule in ("adascale", "sqrt"):
        assert learning_rate_factor(rule, noise, 256) == 1
    noise.update(2.0, 1.5, 4, 64)
    assert learning_rate_factor("adascale", noise, 256) == 1
    assert learning_rate_factor("adascale", measured(0, 400, true=0.1, sigma=0.4), 256) == pytest.approx(3.4, abs=0.2)


def test_averages_are_restored_and_those_of_another_version_are_not() -> None:
    noise, other = measured(0, 50, true=0.1, sigma=0.4), NoiseScale(64)
    other.restore(noise.averages())
    assert (other.sure_phi, other.phi, other.samples) == (noise.sure_phi, noise.phi, noise.samples)
    other.restore([1.0, 2.0, 0.5])
    assert (other.sure_phi, other.phi, other.samples) == (0.0, None, 0.0)


def test_learning_rates_follow_their_rule() -> None:
    noise = measured(0, 400, true=0.1, sigma=3.0)
    assert noise.init_batch == 64
    assert 1 < learning_rate_factor("adascale", noise, 256) < 4
    assert learning_rate_factor("sqrt", noise, 256) == 2
    assert learning_rate_factor("linear", noise, 256) == 4
    assert learning_rate_factor("none", noise, 32) == 1
    with pytest.raises(ValueError, match="adascale"):
        learning_rate_factor("magic", noise, 32)
