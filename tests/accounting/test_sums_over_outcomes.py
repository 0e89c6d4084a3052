"""delta as a sum over listed outcomes: it holds wherever these lie within their errors, and is close."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic.floating import UNIT
from dpledger.accounting.engine import enumeration
from dpledger.accounting.engine.enumeration import ratios
from dpledger.accounting.laws.closed_forms import at_one
from dpledger.accounting.laws.law import ListedLosses
from engine_oracles import mp

NEAR = 1e-12  # relative: roundings of few outcomes


def exact(outcomes: ListedLosses, epsilon: float, log_scale: float, side: int) -> Any:
    """With every loss and every mass moved to one side by its whole error."""
    rows = zip(outcomes.losses, outcomes.log_masses, outcomes.loss_errors, outcomes.mass_errors, strict=True)
    terms = [
        mp.exp(mp.mpf(mass) + side * mp.mpf(mass_error) - log_scale)
        * -mp.expm1(min(mp.mpf(0), mp.mpf(epsilon) - mp.mpf(loss) - side * mp.mpf(loss_error)))
        for loss, mass, loss_error, mass_error in rows
    ]
    beyond = mp.exp(mp.mpf(outcomes.log_beyond) - log_scale) if side > 0 and outcomes.log_beyond > -math.inf else 0
    return mp.fsum(terms) + beyond


outcome = st.tuples(st.floats(-3, 3), st.floats(-20, 0), st.floats(0, 0.1), st.floats(0, 0.1))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(outcome, min_size=1, max_size=8),
    epsilons=st.lists(st.floats(0, 3), min_size=1, max_size=4),
    log_scale=st.floats(-30, 0),
    log_beyond=st.floats(-20, -1) | st.just(-math.inf),
)
def test_outcomes_may_lie_anywhere_within_their_errors(
    rows: list[tuple[float, float, float, float]], epsilons: list[float], log_scale: float, log_beyond: float
) -> None:
    losses, log_masses, loss_errors, mass_errors = np.array(rows).T
    outcomes = ListedLosses(losses, log_masses, loss_errors, mass_errors, log_beyond)
    for epsilon, lower, upper in zip(epsilons, *ratios(outcomes, np.array(epsilons), log_scale), strict=True):
        least, most = (exact(outcomes, epsilon, log_scale, side) for side in (-1, 1))
        room = NEAR * most + mp.mpf(1e-10)
        assert least - room <= lower <= least
        assert most <= upper <= most + room


@pytest.mark.parametrize("count", [3000, 300_000])
def test_the_roundings_of_a_long_sum_are_counted(count: int) -> None:
    """All terms are alike, and each is rounded as all are: by no more than is allowed for one."""
    log_mass = -math.log(count)
    none = np.zeros(count)
    outcomes = ListedLosses(np.ones(count), np.full(count, log_mass), none, none)
    for epsilon in (0.0, 0.3, 0.99):
        true = count * mp.exp(mp.mpf(log_mass)) * -mp.expm1(mp.mpf(epsilon) - 1)
        found = at_one(functools.partial(ratios, outcomes, log_scale=0.0), epsilon)
        room = (count + 200) * UNIT
        assert true * (1 - 3 * room) - 4e-15 <= found.lower <= true * (1 - room / 4)
        assert true * (1 + room / 4) <= found.upper <= true * (1 + 3 * room) + 4e-15


def test_no_outcome_says_another_number_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many epsilons are asked a few at a time, so that their table stays small."""
    outcomes = ListedLosses(np.linspace(0, 2, 50), np.full(50, -4.0), np.full(50, 1e-9), np.full(50, 1e-9))
    epsilons, sizes = np.linspace(0, 2, 37), []
    together = ratios(outcomes, epsilons, 0.0)
    honest = enumeration._ratios

    def told(outcomes: ListedLosses, some: Any, log_scale: float) -> Any:
        sizes.append(some.size * outcomes.losses.size)
        return honest(outcomes, some, log_scale)

    monkeypatch.setattr(enumeration, "_LAID_OUT", 250)
    monkeypatch.setattr(enumeration, "_ratios", told)
    apart = ratios(outcomes, epsilons, 0.0)
    assert max(sizes) <= 250
    assert np.array_equal(together, apart)
    assert not np.concatenate(ratios(outcomes, epsilons[:0], 0.0)).size


def test_sums_of_two_losses_own_up_to_their_rounding() -> None:
    """Of numbers that are known exactly."""
    draw, none = np.random.default_rng(2), np.zeros(20)
    parts = [ListedLosses(draw.uniform(-3, 3, 20), draw.uniform(-9, 0, 20), none, none) for _ in range(2)]
    found = enumeration._joined(*parts)
    rows = zip(found.losses, found.log_masses, found.loss_errors, found.mass_errors, strict=True)
    for (i, j), (loss, mass, error, mass_error) in zip(itertools.product(range(20), repeat=2), rows, strict=True):
        left, right = parts
        assert abs(Fraction(loss) - Fraction(left.losses[i]) - Fraction(right.losses[j])) <= error
        assert abs(Fraction(mass) - Fraction(left.log_masses[i]) - Fraction(right.log_masses[j])) <= mass_error
