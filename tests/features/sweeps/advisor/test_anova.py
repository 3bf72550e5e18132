"""Analyses of variance against published figures, and against sums that can be done by hand."""

import itertools
import math
import random
import statistics
from collections.abc import Sequence

import pytest

from schedulearn.features.sweeps.models.anova import Trial, analyze

MEMORY_AND_CACHE = {(-1, -1): (15, 18, 12), (1, -1): (45, 48, 51), (-1, 1): (25, 28, 19), (1, 1): (75, 75, 81)}
"""Jain, The Art of Computer Systems Performance Analysis, chapter 18: a 2^2 design with 3 replications."""


def trials_of(cells: dict[tuple[int, int], tuple[float, ...]]) -> list[Trial]:
    return [Trial({"A": a, "B": b}, float(y)) for (a, b), values in cells.items() for y in values]


def test_a_published_2k_r_design() -> None:
    found = analyze(trials_of(MEMORY_AND_CACHE), ["A", "B"], confidence=0.9)
    terms = {term.factors: term for term in found.terms}
    assert (found.runs, found.mean, found.error_df) == (12, 41.0, 8)
    assert (found.total, found.error) == (pytest.approx(7032), pytest.approx(102))
    assert [terms[names].effect for names in (("A",), ("B",), ("A", "B"))] == pytest.approx([21.5, 9.5, 5.0])
    assert [terms[names].sum_of_squares for names in terms] == pytest.approx([5547, 1083, 300])
    assert [round(100 * terms[names].share, 2) for names in terms] == [78.88, 15.40, 4.27]
    a = terms[("A",)]
    assert (a.effect_low, a.effect_high) == (pytest.approx(19.58, abs=0.01), pytest.approx(23.42, abs=0.01))
    assert [term.df for term in found.terms] == [1, 1, 1]
    assert a.f == pytest.approx(5547 / (102 / 8))


LOST = [levels for levels in itertools.product((-1, 1), repeat=3) if levels not in ((1, 1, 1), (-1, -1, -1))]
"""A 2^3 design that lost two runs: each column still sums to zero, but they are not orthogonal."""

STATSMODELS_LOST = (
    [2.625, 1.125, -0.25],
    [2.185862344655, 0.685862344655, -0.689137655345],
    [3.064137655345, 1.564137655345, 0.189137655345],
)


def _lost(responses: Sequence[float]) -> list[Trial]:
    return [Trial(dict(zip("ABC", levels, strict=True)), y) for levels, y in zip(LOST, responses, strict=True)]


def test_effects_of_a_design_with_lost_runs_are_those_of_statsmodels() -> None:
    """Figures of `ols("y ~ A + B + C")` and its `conf_int(0.05)`, statsmodels 0.15."""
    found = analyze(_lost([1.0, 4.0, 3.5, 7.0, 6.5, 9.0]), ["A", "B", "C"])
    for term, effect, low, high in zip(found.terms, *STATSMODELS_LOST, strict=True):
        assert (term.effect, term.effect_low, term.effect_high) == pytest.approx((effect, low, high), rel=1e-6)


def test_intervals_of_effects_hold_as_often_as_they_say_where_runs_are_lost() -> None:
    """Monte Carlo: B and C matter, A does not."""
    dice, truth = random.Random(6), {"A": 0.0, "B": 1.0, "C": 0.6}
    held: dict[str, list[bool]] = {name: [] for name in truth}
    for _ in range(1000):
        responses = [truth["B"] * b + truth["C"] * c + dice.gauss(0, 0.05) for _, b, c in LOST]
        for term in analyze(_lost(responses), ["A", "B", "C"]).terms:
            assert term.effect_low is not None
            assert term.effect_high is not None
            [name] = term.factors
            held[name].append(term.effect_low <= truth[name] <= term.effect_high)
    assert [statistics.fmean(each) for each in held.values()] == pytest.approx([0.95] * 3, abs=0.02)


def test_effects_that_the_runs_do_not_tell_apart_have_no_figure() -> None:
    found = analyze([Trial({"A": a, "B": a, "C": c}, a + c) for a in (0, 1) for c in (0, 1, 1)], ["A", "B", "C"])
    assert [term.effect for term in found.terms[:2]] == [None, None]
    assert found.terms[2].effect == pytest.approx(0.5)


def test_the_mean_of_a_point_has_the_interval_of_student() -> None:
    found = analyze(trials_of(MEMORY_AND_CACHE), ["A", "B"])
    cell = found.cells[0]
    assert (cell.levels, cell.runs, cell.mean) == ({"A": -1, "B": -1}, 3, 15.0)
    half = 4.302653 * 3 / math.sqrt(3)  # t of 95 % with 2 degrees of freedom, standard deviation 3
    assert (cell.low, cell.high) == (pytest.approx(15 - half, abs=1e-4), pytest.approx(15 + half, abs=1e-4))


def test_one_factor_with_three_levels() -> None:
    """By hand: means 2, 4, 9; between 6 * 13 = 78, within 6; F = 39 / 1."""
    values = {"x": (1, 2, 3), "y": (3, 4, 5), "z": (8, 9, 10)}
    found = analyze([Trial({"kind": kind}, float(y)) for kind, ys in values.items() for y in ys], ["kind"])
    [term] = found.terms
    assert (term.df, found.error_df) == (2, 6)
    assert (term.sum_of_squares, found.error, term.f) == (pytest.approx(78), pytest.approx(6), pytest.approx(39))
    assert term.p == pytest.approx((1 + 78 / 6) ** -3)  # the tail of F(2, 6) has a closed form
    assert term.effect is None


UNBALANCED = [
    ("a", 1, 10.0), ("a", 1, 12.0), ("a", 2, 15.0), ("b", 1, 20.0), ("b", 2, 22.0), ("b", 2, 25.0), ("b", 2, 24.0),
    ("c", 1, 13.0), ("c", 1, 11.0), ("c", 2, 19.0),
]  # fmt: skip

STATSMODELS = {
    "sum_sq": [115.52, 48.803333333333, 4.613333333333],
    "F": [26.658461538462, 22.524615384616, 1.064615384615],
    "p": [0.004870283542, 0.008997280115, 0.425900388703],
}


def test_lost_runs_are_accounted_for_as_statsmodels_does() -> None:
    """Figures of `anova_lm(ols("y ~ C(kind, Sum) * C(size, Sum)"), typ=2)`, statsmodels 0.15."""
    found = analyze([Trial({"kind": k, "size": s}, y) for k, s, y in UNBALANCED], ["kind", "size"])
    shown = {" x ".join(term.factors): term for term in found.terms}
    assert {name: term.df for name, term in shown.items()} == {"kind": 2, "size": 1, "kind x size": 2}
    assert [term.sum_of_squares for term in found.terms] == pytest.approx(STATSMODELS["sum_sq"], rel=1e-6)
    assert [term.f for term in found.terms] == pytest.approx(STATSMODELS["F"], rel=1e-6)
    assert [term.p for term in found.terms] == pytest.approx(STATSMODELS["p"], rel=1e-6)
    assert found.error_df == 4


def test_a_factor_of_many_numbers_is_a_line() -> None:
    found = analyze([Trial({"lr": n}, 3.0 * n + (n % 2)) for n in range(20)], ["lr"])
    [term] = found.terms
    assert (term.df, found.error_df) == (1, 18)
    assert found.r2 > 0.99


def test_without_replications_interactions_are_left_out_where_nothing_would_be_left() -> None:
    found = analyze([Trial({"A": a, "B": b}, a + b + a * b / 10) for a in (0, 1) for b in (0, 1)], ["A", "B"])
    assert [term.factors for term in found.terms] == [("A",), ("B",)]
    assert found.error_df == 1
    assert all(cell.low is None for cell in found.cells)


def test_without_any_noise_nothing_is_infinite() -> None:
    found = analyze([Trial({"A": a}, float(a)) for a in (0, 1) for _ in range(2)], ["A"])
    [term] = found.terms
    assert (term.share, term.p, term.f) == (pytest.approx(1.0), 0.0, None)


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        ([], "two finished runs"),
        ([Trial({"A": 1}, 1.0), Trial({"A": 1}, 2.0)], "same levels"),
    ],
)
def test_too_little_to_compare_is_told(trials: list[Trial], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        analyze(trials, ["A"])
