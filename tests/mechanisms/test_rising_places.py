"""Several places of a column as one choice: the law against every tuple, whichever proposal it came by."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.mechanisms.entropy import seeded
from dpledger.mechanisms.noise import ExponentialWeights, RisingPlaces, Sensitivity, rising
from dpledger.mechanisms.noise.brackets import Outward
from dpledger.mechanisms.statistics.ranks import Ranked
from exact_tests import SIGNIFICANCE, events_p_value
from rank_oracle import jointly_missed

pytestmark = pytest.mark.sliced

MOVED = Sensitivity(2, "linf", "for these tests")
ROWS = (0, 1, 1, 1, 3, 4, 4)
Place = tuple[int, ...]


def prepared(rows: Any, places: int, qs: tuple[Fraction, ...], exponent: str) -> RisingPlaces:
    column = Ranked.of(np.sort(np.array(rows, dtype=np.int64)))
    return RisingPlaces(ExponentialWeights(exponent), column, qs, first=0, last=places - 1, sensitivity=MOVED)


def law(rows: Any, places: int, qs: tuple[Fraction, ...], exponent: float) -> dict[Place, float]:
    steps = exponent * math.lcm(*(q.denominator for q in qs))
    found: Counter[Place] = Counter()
    tuples = itertools.product(range(places), repeat=len(qs))
    for chosen, missed in zip(tuples, jointly_missed(rows, places, qs), strict=True):
        found[tuple(sorted(chosen))] += math.exp(-steps * float(missed))  # type: ignore[assignment]
    whole = sum(found.values())
    return {at: weight / whole for at, weight in found.items()}


@pytest.mark.parametrize("far", [Fraction(1, 2**64), Fraction(1, 3)], ids=["near", "far"])
@pytest.mark.parametrize(
    ("qs", "exponent"),
    [(("1/2",), "0.3"), (("1/4", "1/2"), "0.1"), (("1/3", "1/2"), "0.08"), (("1/4", "1/2", "3/4"), "0.15")],
)
def test_tuples_are_drawn_by_their_law(
    qs: tuple[str, ...], exponent: str, far: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a third of the proposals are any tuple, and only what is near is summed."""
    monkeypatch.setattr(rising, "FAR", far)
    shares, runs, entropy = tuple(map(Fraction, qs)), 3000, seeded(5)
    choice = prepared(ROWS, 6, shares, exponent)
    found = Counter(choice.drawn(entropy) for _ in range(runs))
    true, twin = law(ROWS, 6, shares, float(exponent)), law(ROWS, 6, shares, 1.6 * float(exponent))
    assert events_p_value(found, runs, true) > SIGNIFICANCE  # type: ignore[arg-type]  # events are tuples
    assert events_p_value(found, runs, twin) < SIGNIFICANCE  # type: ignore[arg-type]


@given(
    rows=st.lists(st.integers(0, 30), max_size=60),
    shares=st.sets(st.integers(1, 19), min_size=1, max_size=5),
    exponent=st.sampled_from(["0.0003", "0.02", "3"]),
    far=st.sampled_from([Fraction(1, 2**64), Fraction(1, 4)]),
)
@settings(max_examples=60, deadline=None)
def test_no_coin_would_need_a_probability_above_one(rows: Any, shares: set[int], exponent: str, far: Fraction) -> None:
    """What a proposal is too rare by is within the slack; hardly any proposal is refused."""
    qs, coins = tuple(Fraction(share, 20) for share in sorted(shares)), []
    at, missing = Outward(40), rising._missing

    def watched(power: Fraction, odds: Fraction) -> Any:
        coins.append(float(at.subtract(at.ln(at.exact(odds)), at.exact(power)).high))
        return missing(power, odds)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rising, "FAR", far)
        patched.setattr(rising, "_missing", watched)
        choice, entropy = prepared(rows * 3, 31, qs, exponent), seeded(1)
        drawn = [choice.drawn(entropy) for _ in range(20)]
    assert all(list(places) == sorted(places) and places[0] >= 0 and places[-1] <= 30 for places in drawn)
    assert max(coins) <= 0
    if far < Fraction(1, 2**32):
        assert min(coins) > -1e-6


class _AboveOne(Exception):
    """A coin would need a probability above one."""


def test_a_twin_with_too_small_a_bound_would_need_more_than_one(monkeypatch: pytest.MonkeyPatch) -> None:
    choice, at = prepared(ROWS, 6, (Fraction(1, 4), Fraction(1, 2)), "0.1"), Outward(40)
    missing = rising._missing

    def watched(power: Fraction, odds: Fraction) -> Any:
        if at.subtract(at.ln(at.exact(odds)), at.exact(power)).high > 0:
            raise _AboveOne
        return missing(power, odds)

    monkeypatch.setattr(rising, "_missing", watched)
    monkeypatch.setattr(choice, "_bound", choice._bound - Fraction(1, 10**6))
    with pytest.raises(_AboveOne):
        choice.drawn(seeded(1))


@given(values=st.lists(st.floats(-50, 50), min_size=1, max_size=40), data=st.data())
@settings(max_examples=60, deadline=None)
def test_sums_over_ranges_are_those_of_their_terms(values: list[float], data: Any) -> None:
    logs = np.array(values)
    starts = np.array([data.draw(st.integers(0, len(values))) for _ in range(5)])
    stops = np.array([data.draw(st.integers(int(start), len(values))) for start in starts])
    found = rising._Ranges(logs).of(starts, stops)
    for start, stop, one in zip(starts, stops, found.tolist(), strict=True):
        terms = np.exp(logs[start:stop])
        assert math.exp(one) == pytest.approx(terms.sum(), rel=1e-12)


def test_what_is_looked_at_are_the_rows_near_the_quantiles() -> None:
    qs = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    choice = prepared(np.arange(200_000), 200_000, qs, "0.25")
    assert len(choice._segments.starts) < 20_000
    places = choice.drawn(seeded(2))
    assert all(abs(place - q * 200_000) < 500 for place, q in zip(places, qs, strict=True))
