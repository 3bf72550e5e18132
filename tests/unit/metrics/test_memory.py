"""How many samples fit, by the memory that passes took."""

import pytest

from schedulearn.metrics.model.memory import USABLE, samples_that_fit

GB = 1e9


def test_two_sizes_tell_what_a_sample_takes() -> None:
    fit = samples_that_fit({8: 4 * GB, 16: 6 * GB}, 1 * GB, 64, 20 * GB, 16 * GB)
    assert (fit.fixed, fit.each, fit.measured) == (2 * GB, 0.25 * GB, True)
    assert fit.samples == int((USABLE * 16 - 2) / 0.25)


def test_one_size_counts_from_what_was_held_before() -> None:
    fit = samples_that_fit({16: 6 * GB}, 2 * GB, 64, 20 * GB, 16 * GB)
    assert (fit.each, fit.samples, fit.measured) == (0.25 * GB, 52, True)


def test_without_any_the_failed_one_gives_a_bound() -> None:
    fit = samples_that_fit({}, 2 * GB, 64, 18 * GB, 16 * GB)
    assert (fit.samples, fit.measured) == (int((USABLE * 16 - 2) / 0.25), False)


def test_what_did_not_fit_is_never_proposed() -> None:
    assert samples_that_fit({32: 3 * GB}, 2 * GB, 40, 3 * GB, 16 * GB).samples == 39


@pytest.mark.parametrize("peaks", [{}, {1: 17 * GB}])
def test_a_model_that_is_too_large_fits_with_no_batch(peaks: dict[int, float]) -> None:
    assert samples_that_fit(peaks, 16 * GB, 8, 16 * GB, 16 * GB).samples == 0
