"""Parts that hold the units that ids or coins of their own put there: one part changes, under every relation.

Oracles: transcripts enumerated one by one, in exact fractions of the odds of randomised response.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from dpledger.accounting.arithmetic.prices import amplified_epsilon
from dpledger.accounting.composition import (
    Composition,
    Converted,
    GaussianLaw,
    Group,
    LaplaceLaw,
    Parallel,
    PoissonSampled,
    PostProcessed,
    RandomizedResponseLaw,
    SampledWithoutReplacement,
    Sequence,
    Shuffled,
)
from dpledger.accounting.guarantees import PureDP
from dpledger.accounting.pricing.costs import cost
from dpledger.accounting.profile import compose
from dpledger.decimals import round_up
from dpledger.errors import CannotCertify
from dpledger.relations import Relation

REPLACE = Relation.REPLACE_ONE
Law = Mapping[tuple[int, ...], Fraction]
Unit = tuple[int, int]
"""A part, and a bit."""


def transcripts(units: tuple[Unit, ...], odds: tuple[int, ...]) -> Law:
    """Each part publishes the parity of its units' bits by randomised response, at its own odds."""
    sides = []
    for part, odd in enumerate(odds):
        true = sum(bit for where, bit in units if where == part) % 2
        sides.append({true: Fraction(odd, 1 + odd), 1 - true: Fraction(1, 1 + odd)})
    return {
        answers: math.prod((side[answer] for side, answer in zip(sides, answers, strict=True)), start=Fraction(1))
        for answers in itertools.product((0, 1), repeat=len(odds))
    }


def mixed(laws: list[Law]) -> Law:
    """One of the laws, by a fair coin that nobody sees."""
    return {answers: sum(law[answers] for law in laws) / Fraction(len(laws)) for answers in laws[0]}


def largest_ratio(left: Law, right: Law) -> Fraction:
    return max(max(left[o] / right[o], right[o] / left[o]) for o in left)


def delta(left: Law, right: Law, odds: float) -> float:
    """The larger hockey-stick divergence of both directions."""
    stick = [sum(max(0.0, float(p[o]) - odds * float(q[o])) for o in p) for p, q in ((left, right), (right, left))]
    return max(stick)


def parts(*odds: int) -> tuple[Composition, ...]:
    """The pair of each part: its bit flips or not."""
    return tuple(RandomizedResponseLaw(round_up(math.log(odd) * (1 + 1e-15))) for odd in odds)


@given(st.integers(2, 6), st.integers(2, 6), st.booleans(), st.floats(0, 2))
@settings(max_examples=30, deadline=None)
def test_a_unit_whose_data_change_changes_one_part(first: int, second: int, coin: bool, at: float) -> None:
    others = ((0, 1), (1, 0), (1, 1))
    if coin:
        left, right = (
            mixed([transcripts(((part, bit), *others), (first, second)) for part in (0, 1)]) for bit in (0, 1)
        )
    else:
        left, right = (transcripts(((0, bit), *others), (first, second)) for bit in (0, 1))
    tree = Parallel(parts(first, second), by="unit")
    epsilon = cost(tree, REPLACE).pure
    assert epsilon is not None
    assert math.log(largest_ratio(left, right)) <= float(epsilon)
    assert delta(left, right, math.exp(at)) <= compose(tree, relation=REPLACE).delta(at).upper + 1e-12


def test_the_bound_is_reached_in_the_costliest_part() -> None:
    left, right = (transcripts(((1, bit),), (2, 5)) for bit in (0, 1))
    found = compose(Parallel(parts(2, 5), by="unit"), relation=REPLACE).epsilon(0)
    assert found.lower == pytest.approx(math.log(largest_ratio(left, right)))
    assert found.upper == pytest.approx(found.lower, rel=1e-9)


def test_by_value_a_unit_may_move_and_touch_two_parts() -> None:
    """The twin that the maximum would bill too low: by value there is no price."""
    left, right = (transcripts(((part, 1),), (5, 5)) for part in (0, 1))
    assert largest_ratio(left, right) == 25
    for relation in set(Relation) - {Relation.ADD_REMOVE}:
        with pytest.raises(CannotCertify, match="by value"):
            cost(Parallel(parts(5, 5)), relation)
        with pytest.raises(CannotCertify, match="by value"):
            compose(Parallel(parts(5, 5)), relation=relation)


@pytest.mark.parametrize("relation", list(Relation))
def test_the_engine_and_the_prices_take_the_costliest_part_under_every_relation(relation: Relation) -> None:
    tree = Parallel((GaussianLaw(2), LaplaceLaw("0.5")), by="unit")
    alone = [compose(part, relation=relation).epsilon("1e-5") for part in tree.of]
    found = compose(tree, relation=relation).epsilon("1e-5")
    assert found.upper == max(bounds.upper for bounds in alone)
    assert found.lower == max(bounds.lower for bounds in alone)


def test_in_a_group_two_units_may_be_in_two_parts() -> None:
    group = Group(Parallel(parts(5, 5), by="unit"), k=2, relation=REPLACE)
    left, right = (transcripts(((0, bit), (1, bit)), (5, 5)) for bit in (0, 1))
    epsilon = cost(group, REPLACE).pure
    assert epsilon is not None
    assert math.log(largest_ratio(left, right)) <= float(epsilon)
    with pytest.raises(CannotCertify, match="different parallel parts"):
        compose(group, relation=REPLACE)


# ---- draws that exchange units --------------------------------------------------------------------------------------


def test_a_batch_that_holds_another_unit_changes_two_parts() -> None:
    """One of two units is drawn, each of a part of its own: the amplified price of the maximum is below the truth."""

    def published(bit: int) -> Law:
        return mixed([transcripts(((0, bit),), (5, 5)), transcripts(((1, 1),), (5, 5))])

    assert largest_ratio(published(1), published(0)) == Fraction(26, 6)
    amplified = amplified_epsilon(round_up(math.log(5)), round_up(Fraction(1, 2)))
    assert float(amplified) == pytest.approx(math.log(3))  # below log(26/6)
    (part, _) = parts(5, 5)
    tree = SampledWithoutReplacement(Parallel((part, part), by="unit"), population=2, batch=1)
    for ask in (cost, lambda of, relation: compose(of, relation=relation)):
        with pytest.raises(CannotCertify, match="exchanges units"):
            ask(tree, REPLACE)


@pytest.mark.parametrize(
    "below",
    [
        Parallel(parts(2, 2), by="unit"),
        Sequence((PureDP(1), Parallel(parts(2, 2), by="unit"))),
        Converted(Parallel(parts(2, 2), by="unit"), to=PureDP(1), relation=REPLACE),
        PostProcessed(Group(Parallel(parts(2, 2), by="unit"), k=1, relation=REPLACE)),
    ],
    ids=lambda tree: str(tree.kind),
)
def test_parts_by_unit_are_refused_wherever_they_stand_in_such_a_draw(below: Composition) -> None:
    for tree in (SampledWithoutReplacement(below, population=10, batch=3), Shuffled(below, users=10)):
        with pytest.raises(CannotCertify):
            cost(tree, REPLACE)
        with pytest.raises(CannotCertify):
            compose(tree, relation=REPLACE)
    whole = SampledWithoutReplacement(below, population=10, batch=10)
    assert cost(whole, REPLACE) == cost(below, REPLACE)


def test_what_is_stated_for_units_that_come_and_go_may_be_drawn() -> None:
    both = Group(Parallel(parts(2, 2), by="unit"), k=2, relation=Relation.ADD_REMOVE)
    assert cost(SampledWithoutReplacement(both, population=10, batch=3), REPLACE).pure is not None
    tree = PoissonSampled(Parallel(parts(2, 2), by="unit"), rate="0.1")
    alone = cost(PoissonSampled(parts(2)[0], rate="0.1"), Relation.ADD_REMOVE)
    assert cost(tree, Relation.ADD_REMOVE).pure == alone.pure
