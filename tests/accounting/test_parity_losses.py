"""What learned parities lose: the bounds against the exact laws of all small samples, their inverses, their limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

import parity_oracle as oracle
from dpledger.accounting.certificates.parity import (
    capped_delta,
    first_of_runs,
    greatest_rate,
    one_run,
    until_success,
)
from dpledger.decimals import round_up
from dpledger.errors import ParameterError
from dpledger.relations import Relation

pytestmark = pytest.mark.sliced

EXCHANGES = (Relation.REPLACE_ONE, Relation.LABEL_FLIP)
RATES = ("0.05", "0.25", "0.5")
FAILS = ("0.3", "0.5", "0.8")
HALF = Decimal("0.5")
ROUNDED = 2e-11  # relative: twelve digits, rounded up with their margin

relations = pytest.mark.parametrize("relation", Relation, ids=lambda relation: relation.value)


@cache
def law(rows: oracle.Rows, dimension: int, rate: str, fail: str) -> oracle.Law:
    return oracle.one_run(tuple(sorted(rows)), dimension, Fraction(rate), Fraction(fail))


@cache
def pairs(relation: Relation, dimension: int, size: int) -> tuple[tuple[oracle.Rows, oracle.Rows], ...]:
    found = {tuple(tuple(sorted(side)) for side in pair) for pair in oracle.neighbours(relation, dimension, size)}
    return tuple(sorted(found))  # type: ignore[arg-type]


def distinct(
    relation: Relation, dimension: int, rate: str, fail: str, size: int = 4
) -> set[tuple[tuple[Fraction, ...], ...]]:
    """The pairs of laws that neighbours have."""
    return {
        (tuple(law(left, dimension, rate, fail)), tuple(law(right, dimension, rate, fail)))
        for left, right in pairs(relation, dimension, size)
    }


def is_just_above(bound: Decimal, ratio: Fraction) -> bool:
    with mpmath.workdps(40):
        exact = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
        told = mpmath.mpf(str(bound))
        return bool(exact <= told <= exact * (1 + ROUNDED))


# ---- one run --------------------------------------------------------------------------------------------------------


@relations
@pytest.mark.parametrize("fail", FAILS)
@pytest.mark.parametrize("rate", RATES)
def test_one_run_loses_exactly_what_is_said_over_all_small_samples(relation: Relation, rate: str, fail: str) -> None:
    bound = one_run(Decimal(rate), Decimal(fail), relation)
    for dimension in (1, 2):
        losses = [oracle.largest_loss(left, right) for left, right in distinct(relation, dimension, rate, fail)]
        assert is_just_above(bound, max(loss for loss in losses if loss is not None))
        assert None not in losses


@relations
def test_a_single_example_already_loses_all_of_it(relation: Relation) -> None:
    """z = (x, 1) against (x, 0), of which a parity tells; (0, 1) against (0, 0), of which FAIL tells."""
    for rate in RATES:
        for fail in FAILS:
            losses = [oracle.largest_loss(*pair) for pair in distinct(relation, 1, rate, fail, size=1)]
            assert is_just_above(one_run(Decimal(rate), Decimal(fail), relation), max(x for x in losses if x))


def test_of_the_rate_that_the_slides_take_about_half_is_lost() -> None:
    assert float(one_run(Decimal("0.25"), HALF, Relation.REPLACE_ONE)) == pytest.approx(
        2 * math.atanh(0.25), rel=ROUNDED
    )
    assert one_run(Decimal("0.957"), HALF, Relation.REPLACE_ONE) < Decimal("3.829")
    assert one_run(Decimal("0.9576"), HALF, Relation.REPLACE_ONE) > Decimal("3.8304")  # claimed: four times the rate


@given(rate=st.decimals("1e-30", "0.999999", places=30), relation=st.sampled_from(Relation))
def test_fail_may_be_rarer_at_no_cost_down_to_a_point(rate: Decimal, relation: Relation) -> None:
    p = Fraction(rate)
    least = round_up((1 - p) / ((3 if relation in EXCHANGES else 2) - p))
    often = one_run(rate, Decimal("0.9"), relation)
    assert one_run(rate, least, relation) == often
    assert one_run(rate, Decimal(str(float(least) * 0.99)), relation) > often


@given(
    rate=st.decimals("1e-40", "0.9999999999", places=40),
    fail=st.decimals("1e-9", "0.999999999", places=9),
    relation=st.sampled_from(Relation),
)
def test_the_bounds_are_those_of_the_formulas_at_every_size(rate: Decimal, fail: Decimal, relation: Relation) -> None:
    with mpmath.workdps(120):
        p, phi = mpmath.mpf(str(rate)), mpmath.mpf(str(fail))
        gained = mpmath.log((1 + p) / (1 - p)) if relation in EXCHANGES else mpmath.log(1 + p)
        fewer, failed = -mpmath.log(1 - p), mpmath.log(1 - p + p / phi)
        solution = max(gained, fewer)
        exact = {
            one_run(rate, fail, relation): max(solution, failed),
            first_of_runs(rate, fail, 5, relation): max(5 * failed, solution, gained + min(4 * failed, fewer)),
            until_success(rate, fail, relation): max(failed, gained) + fewer,
        }
        for told, formula in exact.items():
            assert formula <= mpmath.mpf(str(told)) <= formula * (1 + ROUNDED)


# ---- again after FAIL -----------------------------------------------------------------------------------------------


@relations
@pytest.mark.parametrize("rate", RATES)
def test_no_repetition_loses_more_than_is_said(relation: Relation, rate: str) -> None:
    for fail in FAILS:
        p, phi = Decimal(rate), Decimal(fail)
        both = distinct(relation, 2, rate, fail, size=3)
        laws = {side: list(side) for pair in both for side in pair}
        repeated: list[tuple[Decimal, Callable[[oracle.Law], oracle.Law]]] = [
            *((first_of_runs(p, phi, k, relation), partial(oracle.first_success, runs=k)) for k in (1, 2, 3, 6, 12)),
            *((until_success(p, phi, relation), partial(oracle.until_success, stop=Fraction(1, k))) for k in (3, 100)),
        ]
        for bound, again in repeated:
            of = {side: again(law) for side, law in laws.items()}
            there, back = (np.array([of[pair[side]] for pair in both], dtype=float) for side in (0, 1))
            assert np.abs(np.log(there / back)).max() <= float(bound) + 1e-12


def test_going_on_until_success_loses_all_of_it_as_examples_grow() -> None:
    limit = float(until_success(Decimal("0.3"), HALF, Relation.REPLACE_ONE))
    assert limit == pytest.approx(math.log(1.3 / 0.49), rel=ROUNDED)
    assert limit == pytest.approx(0.975714, abs=5e-7)
    published = {5: 0.906160, 10: 0.963681, 14: 0.972812}
    for copies, known in published.items():
        sides = [((1, 0),) * copies + ((1, last),) for last in (0, 1)]
        laws = [oracle.one_run(rows, 1, Fraction("0.3"), Fraction(1, 2)) for rows in sides]
        loss = oracle.largest_loss(*(oracle.until_success(one, Fraction(1, 10**9)) for one in laws))
        assert loss is not None
        assert math.log(loss) == pytest.approx(known, abs=1e-6)
        assert math.log(loss) < limit


@relations
@pytest.mark.parametrize(("stop", "runs"), [("0.3", 12), ("0.05", 40), ("0.5", 4)])
def test_what_a_cap_of_runs_costs(relation: Relation, stop: str, runs: int) -> None:
    rate, fail = "0.25", "0.3"
    epsilon = until_success(Decimal(rate), Decimal(fail), relation)
    delta = float(capped_delta(epsilon, Decimal(stop), runs))
    assert delta == pytest.approx(math.exp(float(epsilon)) * (1 - float(stop)) ** runs, rel=1e-9)
    for pair in distinct(relation, 2, rate, fail, size=3):
        left, right = (oracle.capped(list(side), Fraction(stop), runs) for side in pair)
        assert oracle.hockey_stick(left, right, float(epsilon)) <= delta
        assert oracle.hockey_stick(right, left, float(epsilon)) <= delta


def test_a_cap_alone_costs_something() -> None:
    """The delta is no slack: three runs and a coin that hardly stops lose more than epsilon."""
    epsilon = until_success(HALF, HALF, Relation.ADD_REMOVE)
    laws = [oracle.one_run(rows, 1, Fraction(1, 2), Fraction(1, 2)) for rows in ((), ((0, 1),))]
    left, right = (oracle.capped(one, Fraction(1, 1000), 3) for one in laws)
    assert oracle.hockey_stick(right, left, float(epsilon)) > 0


# ---- the rate for an epsilon ----------------------------------------------------------------------------------------


def inverse(epsilon: float, relation: Relation, *, repeated: bool) -> float:
    e = math.exp(epsilon)
    if repeated:
        return ((2 * e + 1) - math.sqrt(8 * e + 1)) / (2 * e) if relation in EXCHANGES else math.tanh(epsilon / 2)
    return math.tanh(epsilon / 2) if relation in EXCHANGES else -math.expm1(-epsilon)


@given(epsilon=st.decimals("0.001", "12", places=6), relation=st.sampled_from(Relation), repeated=st.booleans())
def test_the_rate_for_an_epsilon_is_the_known_inverse(epsilon: Decimal, relation: Relation, repeated: bool) -> None:
    priced = until_success if repeated else one_run
    rate = greatest_rate(epsilon, lambda rate: priced(rate, HALF, relation))
    assert priced(rate, HALF, relation) <= epsilon
    assert float(rate) == pytest.approx(inverse(float(epsilon), relation, repeated=repeated), rel=1e-6)


@given(
    exponent=st.integers(-55, 4),
    digits=st.decimals(1, 9, places=3),
    runs=st.integers(1, 10**6),
    relation=st.sampled_from(Relation),
)
def test_a_rate_keeps_every_epsilon(exponent: int, digits: Decimal, runs: int, relation: Relation) -> None:
    epsilon = Decimal(f"{digits}e{exponent}")
    try:
        rate = greatest_rate(epsilon, lambda rate: first_of_runs(rate, HALF, runs, relation))
    except ParameterError:
        assert exponent < -50
    else:
        assert 0 < rate < 1
        assert first_of_runs(rate, HALF, runs, relation) <= epsilon
        more = rate * Decimal("1.0000000001")
        assert more >= 1 or exponent < -44 or first_of_runs(more, HALF, runs, relation) > epsilon


def test_published_rates() -> None:
    def first(rate: Decimal) -> Decimal:
        return first_of_runs(rate, HALF, 6, Relation.REPLACE_ONE)

    def until(rate: Decimal) -> Decimal:
        return until_success(rate, HALF, Relation.REPLACE_ONE)

    assert greatest_rate(Decimal(1), first) == pytest.approx(Decimal("0.18136"), abs=Decimal("1e-6"))
    assert greatest_rate(Decimal(1), until) == pytest.approx(Decimal("0.306675"), abs=Decimal("1e-6"))


# ---- what would be wrong --------------------------------------------------------------------------------------------


def test_published_faults() -> None:
    """The rate taken for epsilon; runs until success at the price of one; no FAIL by itself; the least solution."""
    assert float(one_run(HALF, HALF, Relation.REPLACE_ONE)) == pytest.approx(1.098612, abs=1e-6)
    rate = Decimal(str(round(math.tanh(0.25), 15)))
    assert float(until_success(rate, HALF, Relation.REPLACE_ONE)) == pytest.approx(0.780930, abs=1e-6)
    one, other = ((1, 0),) * 6, ((1, 0),) * 5 + ((1, 1),)
    laws = [oracle.one_run(rows, 1, Fraction(rate), Fraction(1, 2)) for rows in (one, other)]
    loss = oracle.largest_loss(*(oracle.until_success(one, Fraction(0)) for one in laws))
    assert loss is not None
    assert math.log(loss) == pytest.approx(0.704325, abs=1e-6)
    never, least = ((((0, 1),), ((0, 0),)), (((1, 1),), ((1, 0),)))
    assert oracle.largest_loss(*(oracle.one_run(rows, 1, Fraction(1, 4), Fraction(0)) for rows in never)) is None
    deterministic = [oracle.one_run(rows, 1, Fraction(1, 4), Fraction(1, 2), uniform=False) for rows in least]
    assert oracle.largest_loss(*deterministic) is None
