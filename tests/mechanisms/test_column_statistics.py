"""Sums, variances and frequent categories of a column: what is summed, how far off it is, what is chosen."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.composition import ExponentialLaw, Repeated
from dpledger.accounting.guarantees import PureDP
from dpledger.errors import ParameterError
from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import Sensitivity
from dpledger.mechanisms.numeric import ClippedMean, Count, Histogram
from dpledger.mechanisms.statistics import ClippedSum, ColumnBounds, TopK, Variance
from dpledger.relations import Relation, Unit
from exact_tests import SIGNIFICANCE, binomial_p_value, events_p_value

pytestmark = pytest.mark.sliced

ADD, REPLACE, RECORD = Relation.ADD_REMOVE, Relation.REPLACE_ONE, Unit("record")
USER = Unit("user", max_contributions=3)


# ---- a sum ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "unit", "lower", "upper", "moved"),
    [
        (ADD, RECORD, -2, 5, 5),
        (ADD, USER, -7, 5, 21),
        (REPLACE, RECORD, -2, 5, 7),
        (REPLACE, RECORD, 2, 5, 3),
        (REPLACE, USER, 2, 5, 15),
        (REPLACE, USER, -2, 5, 21),
        (Relation.ZERO_OUT, USER, -5, -2, 15),
        (Relation.LABEL_FLIP, USER, 2, 5, 9),
    ],
)
def test_how_far_a_unit_moves_a_sum(relation: Relation, unit: Unit, lower: int, upper: int, moved: int) -> None:
    found = ClippedSum(epsilon=1, lower=lower, upper=upper).under(relation, unit)
    declared: Sensitivity = found._declared
    assert declared.value == moved
    assert found.noise.scale == moved


@pytest.mark.parametrize("rows", [[1.5, -3, 70, "x", None, float("inf")], np.arange(200_000) / 7, pd.Series([3, None])])
def test_a_sum_is_of_the_clipped_values(rows: Any) -> None:
    mechanism = ClippedSum(epsilon=10**12, lower=-2, upper=10)
    read = pd.to_numeric(pd.Series(rows), errors="coerce").fillna(0).clip(-2, 10)
    assert mechanism.release(rows, entropy=seeded(1)).value == pytest.approx(float(read.sum()), abs=1e-2)


def test_what_is_missing_counts_as_what_is_nearest_to_zero() -> None:
    for lower, upper, missing in ((-1, 5, 0), (2, 5, 2), (-5, -3, -3)):
        placed = ClippedSum(epsilon=1, lower=lower, upper=upper).under(ADD, RECORD)
        assert placed.missing == missing


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (Count, {"of": "rows"}),
        (Histogram, {"edges": (0, 1), "relation": REPLACE}),
        (ClippedSum, {"lower": -3, "upper": 5, "relation": REPLACE, "unit": USER}),
        (TopK, {"k": 2, "categories": ("a", "b", "c")}),
        (ColumnBounds, {"tail": "0.01", "relation": REPLACE}),
    ],
)
def test_the_least_epsilon_for_an_error(make: Any, given: dict[str, Any]) -> None:
    found = make.for_error(40, "0.95", **given)
    assert found.interval("0.95") <= 40
    assert make(epsilon=found.epsilon * 9 / 10, **given).interval("0.95") > 40
    with pytest.raises(ParameterError, match="error"):
        make.for_error(0, "0.95", **given)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(("make", "error"), [(ClippedMean, "0.25"), (Variance, 4)])
def test_the_least_epsilon_for_an_error_of_so_many_rows(make: Any, error: Any, relation: Relation) -> None:
    """Whatever the rows hold: all at an end, where the noise of the count weighs most, and half of them at each."""
    given: dict[str, Any] = {"lower": 0, "upper": 8, "relation": relation}
    found = make.for_error(error, "0.9", rows=1000, **given)
    assert found.within("0.9", 1000) <= float(error)
    assert make(epsilon=found.epsilon * 9 / 10, **given).within("0.9", 1000) > float(error)
    for rows, truth in (([8.0] * 1000, (8, 0)), ([0.0, 8.0] * 500, (4, 16)), ([7.3] * 1000, (7.3, 0))):
        sampled, of_variance = found.sample(rows, 1000, seeded(2)), make is Variance
        off = np.abs(sampled[:, 0] - truth[1]) if of_variance else np.abs(sampled - truth[0])
        inside = int((off <= float(error)).sum())
        assert inside >= 860, "of 1,000 with 0.9: a false alarm below 10^-4"
    assert found.within("0.9", 1) == math.inf or relation is REPLACE
    with pytest.raises(ParameterError, match="rows"):
        make.for_error(error, "0.9", rows=0, **given)


@pytest.mark.parametrize("confidence", ["0.5", "0.9"])
def test_a_sum_is_within_its_interval_as_often_as_it_says(confidence: str) -> None:
    mechanism, rows, runs = ClippedSum(epsilon=1, lower=0, upper=8), np.arange(64) / 8, 4000
    inside = np.abs(mechanism.sample(rows, runs, seeded(2)) - rows.sum()) <= mechanism.interval(confidence)
    assert binomial_p_value(int(inside.sum()), runs, float(confidence)) > SIGNIFICANCE


# ---- a variance -----------------------------------------------------------------------------------------------------


@given(rows=st.lists(st.floats(-5, 15), min_size=1, max_size=30))
@settings(max_examples=40, deadline=None)
def test_without_noise_a_variance_is_that_of_the_clipped_values(rows: list[float]) -> None:
    mechanism = Variance(epsilon="1e12", lower=-2, upper=10, relation=REPLACE)
    found = mechanism.release(rows, entropy=seeded(1)).value
    clipped = np.clip(rows, -2, 10)
    assert found.variance == pytest.approx(float(np.var(clipped)), abs=1e-3)
    assert found.mean == pytest.approx(float(clipped.mean()), abs=1e-4)
    assert found.count == len(rows)
    assert found.deviation**2 == pytest.approx(float(found), abs=1e-12)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
def test_a_variance_is_within_its_interval(relation: Relation) -> None:
    mechanism = Variance(epsilon=1, lower=0, upper=100).under(relation, RECORD)
    rows, runs = np.random.default_rng(1).normal(60, 12, 3000), 300
    true = float(np.var(np.clip(rows, 0, 100)))
    found = [mechanism.release(rows, entropy=seeded(7, run)).value for run in range(runs)]
    held = sum(low <= true <= high for low, high in (one.interval("0.8") for one in found))
    assert held >= 0.8 * runs
    assert all(low <= float(one) <= high for one in found for low, high in (one.interval("0.8"),))
    assert np.std([float(one) for one in found]) < 12
    widths = [high - low for low, high in (one.interval("0.8") for one in found)]
    assert np.median(widths) < 150


@pytest.mark.parametrize("rows", [[], [5.0], [0.0, 100.0], [1e300, float("nan"), "x"]])
def test_a_variance_of_few_rows_is_one_that_values_can_have(rows: list[Any]) -> None:
    for run in range(30):
        found = Variance(epsilon="0.5", lower=0, upper=100).release(rows, entropy=seeded(run)).value
        low, high = found.interval("0.95")
        assert 0 <= found.variance <= 2500
        assert 0 <= low <= high <= 2500
        assert 0 <= found.mean <= 100
    for confidence in (0, 1, "1.5", "0.99999999999999999"):
        with pytest.raises(ParameterError, match="confidence"):
            found.interval(confidence)


# ---- the most frequent ----------------------------------------------------------------------------------------------


def law_of_top(counts: tuple[int, ...], k: int, exponent: float) -> dict[tuple[int, ...], float]:
    """The probability of each order, from the definition."""
    found = {}
    for order in itertools.permutations(range(len(counts)), k):
        chance, gone = 1.0, 0.0
        weights = [math.exp(exponent * (count - max(counts))) for count in counts]
        for place in order:
            chance *= weights[place] / (sum(weights) - gone)
            gone += weights[place]
        found[order] = chance
    return found


WORDS = ("a", "b", "c", "d")


@pytest.mark.parametrize("k", [1, 2, 4])
def test_categories_are_drawn_by_their_law(k: int) -> None:
    mechanism, runs, counts = TopK(epsilon=2, k=k, categories=WORDS).under(ADD, RECORD), 4000, (5, 3, 3, 0)
    rows = [*itertools.chain(*([word] * many for word, many in zip(WORDS, counts, strict=True))), "other", None]
    found = Counter(map(tuple, mechanism.sample(rows, runs, seeded(3)).tolist()))
    true, twin = (law_of_top(counts, k, exponent) for exponent in (2 / k, 1.6 * 2 / k))
    assert events_p_value(found, runs, true) > SIGNIFICANCE  # type: ignore[arg-type]  # events are tuples
    assert events_p_value(found, runs, twin) < SIGNIFICANCE  # type: ignore[arg-type]


@pytest.mark.parametrize(("relation", "unit"), [(ADD, RECORD), (ADD, USER), (REPLACE, RECORD)])
def test_no_neighbours_are_told_apart_by_more_than_epsilon(relation: Relation, unit: Unit) -> None:
    mechanism = TopK(epsilon=1, k=2, categories=WORDS[:3]).under(relation, unit)
    exponent, rows = float(mechanism.parameters()["exponent"]), unit.max_contributions  # type: ignore[arg-type]
    moves = [
        move
        for move in itertools.product(range(-rows, rows + 1), repeat=3)
        if (min(move) >= 0 and sum(move) <= rows)
        or (relation is REPLACE and sum(map(abs, move)) <= 2 * rows and sum(move) == 0)
    ]
    worst = 0.0
    for counts in itertools.product((1, 4, 12), repeat=3):
        here = law_of_top(counts, 2, exponent)
        for move in moves:
            there = law_of_top(tuple(a + b for a, b in zip(counts, move, strict=True)), 2, exponent)
            worst = max(worst, max(abs(math.log(here[order] / there[order])) for order in here))
    assert 0.6 < worst <= 1 + 1e-9


def test_what_the_most_frequent_cost_and_how_near_they_are() -> None:
    mechanism = TopK(epsilon=1, k=2, categories=WORDS)
    assert (mechanism.claim(), mechanism.parts()) == (PureDP(1), Repeated(ExponentialLaw("0.5"), times=2))
    counts = (60, 50, 35, 0)
    law = law_of_top(counts, 2, 0.5)
    for confidence in ("0.5", "0.95"):
        slack = mechanism.interval(confidence)
        wrong = sum(
            chance
            for order, chance in law.items()
            if any(counts[other] > counts[at] + slack for at in order for other in set(range(4)) - set(order))
        )
        assert wrong <= float(1 - Fraction(confidence))
    found = mechanism.release([1, 1.0, True, "b"], entropy=seeded(1)).value
    assert len(set(found)) == 2
