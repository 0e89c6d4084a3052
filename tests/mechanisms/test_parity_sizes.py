"""How many examples learn a parity: the published sizes, and what the learners themselves say."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given, strategies as st

from dpledger.errors import InfeasiblePlan
from dpledger.mechanisms.learning.parities.parity_learners import PrivateParityLearner, RepeatedParity
from dpledger.mechanisms.learning.theory.parity_sizes import RepetitionMode, parity_plan, parity_size, stays_failed
from dpledger.mechanisms.learning.theory.sizes import occam
from dpledger.relations import Relation

pytestmark = pytest.mark.sliced

MODES: tuple[RepetitionMode, ...] = ("basic", "first_success", "until_success")
TARGET = ("0.1", "0.05")


@pytest.mark.parametrize(("dimension", "sizes"), [(20, (2103, 959, 564)), (10, (1273, 581, 341))])
def test_published_sizes(dimension: int, sizes: tuple[int, ...]) -> None:
    found = [parity_plan(dimension, *TARGET, epsilon=1, relation=Relation.REPLACE_ONE, mode=mode) for mode in MODES]
    assert tuple(plan.needed for plan in found) == sizes
    assert [dict(plan.inside).get("runs") for plan in found] == [6, 6, None]


def test_published_sizes_of_the_slides_and_of_rows_that_come_and_go() -> None:
    slides = Decimal(1) / 24
    assert parity_size(20, round(slides, 15), "0.025", *TARGET).needed == pytest.approx(4204, abs=1)
    assert parity_size(10, round(slides, 15), "0.025", *TARGET).needed == pytest.approx(2544, abs=1)
    added = [parity_plan(d, *TARGET, epsilon=1, relation=Relation.ADD_REMOVE).needed for d in (20, 10)]
    assert added == [371, 225]


@pytest.mark.parametrize(("dimension", "known"), [(20, 169), (10, 100)])
def test_published_sizes_without_privacy(dimension: int, known: int) -> None:
    """(ln |C| + ln(1/beta))/alpha; the sharper logarithm needs a few less."""
    assert math.ceil((dimension * math.log(2) + math.log(1 / 0.05)) / 0.1) == known
    assert 0.9 * known < occam(2**dimension, *TARGET).needed <= known


@given(beta=st.decimals("0.001", "0.9", places=3))
@example(beta=Decimal("0.125"))
def test_runs_and_stops_leave_no_answer_with_half_of_beta(beta: Decimal) -> None:
    plans = {mode: parity_plan(5, "0.1", beta, epsilon=1, relation=Relation.REPLACE_ONE, mode=mode) for mode in MODES}
    half, runs = Decimal("0.5"), int(dict(plans["basic"].inside)["runs"])
    assert 2 ** (runs - 1) < 2 / Fraction(beta) <= 2**runs
    assert stays_failed(half, runs=runs) <= beta / 2 * Decimal("1.00000000001")
    stop = dict(plans["until_success"].inside)["stop probability"]
    assert stays_failed(half, stop=stop) <= beta / 2 * Decimal("1.00000000001")


def test_a_learner_knows_its_size() -> None:
    once = PrivateParityLearner(dimension=20, epsilon=1)
    with pytest.raises(InfeasiblePlan, match=r"FAIL comes with probability 0\.5"):
        once.plan(*TARGET)
    learner = RepeatedParity(dimension=20, epsilon=1, mode="first_success", runs=6)
    plan = learner.plan(*TARGET)
    assert plan.needed == math.ceil((20 * math.log(2) - math.log(0.05 - 2**-6)) / -math.log1p(-0.181360412865 * 0.1))
    assert "parity" in plan.words()


def test_no_answer_is_as_likely_as_it_is_said() -> None:
    fail, stop = Decimal("0.3"), Decimal("0.1")
    assert float(stays_failed(fail, runs=3)) == pytest.approx(0.027)
    assert float(stays_failed(fail, stop=stop)) == pytest.approx(0.03 / 0.73)
    capped = 1 - 0.7 * (1 + 0.27 + 0.27**2)
    assert capped <= float(stays_failed(fail, stop=stop, most=3)) <= capped + 0.27**3
