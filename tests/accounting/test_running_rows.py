"""Sums that grow: what they may err by, against exact rational arithmetic; and rows side by side against one by one."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.engine.composed import Composed
from dpledger.accounting.engine.place import DECAY, Place, Rows
from dpledger.accounting.engine.running import Running
from dpledger.accounting.engine.solve import finite_epsilon
from dpledger.accounting.laws.laplace import LaplaceLoss
from dpledger.accounting.laws.law import Loss
from dpledger.accounting.laws.subsampled import SampledGaussianLoss

numbers = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-100)
row = st.lists(numbers, min_size=2, max_size=2)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(row, min_size=1, max_size=4),
    st.lists(row, max_size=3),
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10**20)), max_size=250),
)
def test_sums_that_grew_err_by_at_most_their_terms(
    first: list[list[float]], later: list[list[float]], adds: list[tuple[int, int]]
) -> None:
    known, counts = list(first), [1] * len(first)
    rows = Rows(np.array(first), counts)
    for step, (which, count) in enumerate(adds):
        if step % 20 == 5 and later:
            fresh = later.pop()
            known.append(fresh)
            counts.append(count)
            rows.append(np.array([fresh]), [count])
            continue
        i = which % len(known)
        counts[i] += count
        rows.add(i, count, counts[i])
    for column in range(2):
        terms = [Fraction(known[i][column]) * counts[i] for i in range(len(known))]
        slack = rows.terms * Fraction(UNIT) * sum(map(abs, terms)) * Fraction(1.000001)
        assert abs(Fraction(float(rows.sums[column])) - sum(terms)) <= slack
    assert rows.terms <= 2 * len(known) + 80 + 20


@pytest.mark.parametrize("side", ["remove", "add"])
def test_rows_side_by_side_are_those_of_the_losses_one_by_one(side: str) -> None:
    """Both are within their spread of the truth; K within its error; no bound below the other's certain part."""
    laws: list[Loss] = [SampledGaussianLoss(0.003 * k, 0.7 + 0.3 * k, side) for k in range(1, 7)]  # type: ignore[arg-type]
    losses: list[Loss] = [*laws, LaplaceLoss(0.05)]
    place = Place.near(3.3, 0.1, 48, 0.0)
    together = place.node_rows(losses)
    alone = np.concatenate([place.node_rows([loss]) for loss in losses])
    n, t = place.count, 0.1 * np.arange(place.count)
    moved = t * (together[:, -4:-3] - alone[:, -4:-3])  # the two centres differ a little
    phi, other = (np.exp(rows[:, :n] + 1j * rows[:, n : 2 * n]) for rows in (together, alone))
    apart = np.abs(phi * np.exp(1j * moved) / other - 1)
    assert (apart <= 1.01 * np.expm1(together[:, 2 * n : 3 * n] + alone[:, 2 * n : 3 * n]) + 1e-12).all()
    assert (np.abs(together[:, -7] - alone[:, -7]) <= together[:, -5] + alone[:, -5]).all()
    assert (together[:, DECAY] == 0).all()
    bounds, exact = place.bound_rows(losses), Composed(tuple((loss, 1) for loss in losses))
    summed = Rows(bounds, [1] * len(losses))
    tilted = [exact.tilted(c).cumulants for c in place.points.tolist()]
    values = np.array([at.value - at.error for at in tilted])
    assert (place.ladder(summed).log_moments >= values).all()
    assert place.ladder(summed).log_moments == pytest.approx(values, rel=1e-8, abs=1e-9)
    assert summed.largest >= exact.largest * (1 - 1e-12)
    decays = place.decays(losses)
    assert (decays <= 0).all()
    assert decays == pytest.approx([place.decays([loss])[0] for loss in losses], rel=0.05)


@pytest.mark.parametrize("side", ["remove", "add"])
def test_a_list_is_never_said_to_be_below_what_its_epsilon_is_above(side: str) -> None:
    """Whatever is known of its newest losses: bounds in closed form, rows, or nothing yet."""
    running, certain = Running(math.log(1e-5), math.log(1e-5)), 0
    for k in range(40):
        running.add(SampledGaussianLoss(0.002 + 0.0004 * k, 0.9 + 0.05 * k, side), 30)  # type: ignore[arg-type]
        if k % 10 == 9:
            running.epsilon()  # chooses a place
        parts = tuple((loss, count) for loss, count in running.parts())
        truth = finite_epsilon(Composed(parts), math.log(1e-5), math.log(1e-5)) if k % 4 == 3 else None
        if truth is not None:
            assert not running.is_at_most(truth.lower * (1 - 1e-9))
            certain += running.is_at_most(4 * truth.upper)
    assert certain >= 5
